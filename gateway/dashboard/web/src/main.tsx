import { render } from "preact";

import { App } from "./app";
import { startLive } from "./live";
import { applyTheme, theme } from "./store";

applyTheme(theme.get());
startLive();
render(<App />, document.getElementById("app")!);
