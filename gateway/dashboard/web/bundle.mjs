// Puts what Vite has built into ../bundle, compressed, where CMake takes it from; with --check it
// compares the two instead. Contents are compared, not compressed bytes: versions of zlib differ.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const BUILT = { "index.html": at("build/index.html") };
for (const name of readdirSync(at("build/assets"))) BUILT[name] = at(`build/assets/${name}`);
const BUNDLE = at("../bundle");
const BYTES_MAX = 150 * 1024;

const names = Object.keys(BUILT).sort();
if (process.argv.includes("--check")) {
  const there = readdirSync(BUNDLE).sort();
  const wanted = names.map((name) => `${name}.gz`);
  let isSame = there.join() === wanted.join();
  if (!isSame) console.error(`bundle has ${there.join(" ")}, the sources build ${wanted.join(" ")}`
    + ": run npm run build");
  for (const name of isSame ? names : []) {
    const committed = gunzipSync(readFileSync(`${BUNDLE}/${name}.gz`));
    if (committed.equals(readFileSync(BUILT[name]))) continue;
    console.error(`bundle/${name}.gz is not what the sources build: run npm run build`);
    isSame = false;
  }
  process.exit(isSame ? 0 : 1);
}

rmSync(BUNDLE, { recursive: true, force: true });
mkdirSync(BUNDLE);
let bytes = 0;
for (const name of names) {
  const packed = gzipSync(readFileSync(BUILT[name]), { level: 9 });
  packed[9] = 255; // the operating system's number: unknown, so that all machines write the same
  writeFileSync(`${BUNDLE}/${name}.gz`, packed);
  bytes += packed.length;
}
console.log(`bundle: ${names.length} files, ${bytes} bytes of ${BYTES_MAX}`);
if (bytes > BYTES_MAX) process.exit(1);
