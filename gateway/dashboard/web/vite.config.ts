import { defineConfig } from "vite";
import { fileURLToPath } from "node:url";

// The names of the files are fixed, because they are compiled into the program, which gives each
// an ETag. Addresses are relative, so that the page works behind a path of a reverse proxy.
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: "build",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/dashboard.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: (asset) =>
          asset.names.some((name) => name.endsWith(".css"))
            ? "assets/dashboard.css" : "assets/[name][extname]",
      },
    },
  },
});
