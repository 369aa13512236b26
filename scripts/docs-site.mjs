// `npm run docs:site`: builds docs/ as a website. `-- --out DIR` writes it elsewhere; `-- --serve` instead serves the pages on
// this machine on `--port N` and reloads them when they are edited.
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build, createServer } from 'vitepress';

const DEFAULT_PORT = 5173;
const docs = fileURLToPath(new URL('../docs', import.meta.url));

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: `${docs}/.vitepress/dist` },
    serve: { type: 'boolean', default: false },
    port: { type: 'string', default: String(DEFAULT_PORT) },
  },
});
const port = Number(options.port);
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error(`--port ${options.port} is not a port: give a whole number from 0 to 65535.`);
  process.exit(64);
}

if (options.serve) {
  const server = await createServer(docs, { port, host: '127.0.0.1' });
  await server.listen();
  server.printUrls();
} else {
  const outDir = resolve(options.out);
  await build(docs, { outDir });
  console.log(`The site is in ${outDir}. Any web server can serve it.`);
}
