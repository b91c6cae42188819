// Every package of package.json is imported.
import { print } from "./support.mjs";

for (const name of process.argv.slice(2)) {
  const module = await import(name);
  print([name, Object.keys(module)]);
}
