// Run in a package's folder after its compiler: takes along what the compiler leaves behind, such as SQL and Lua.
import { cpSync, statSync } from 'node:fs';

const ASSET = /\.(sql|lua|proto)$/;

cpSync('src', 'dist', {
  recursive: true,
  filter: (path) => statSync(path).isDirectory() || ASSET.test(path),
});
