import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot, quoted } from '../../runtime/index.js';
import { entityTag } from '../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../http/types.js';
import { ApiError } from '../view/ApiError.js';
import { layoutStyle } from './layoutStyle.js';
import { stripStyle } from './stripStyle.js';

/** Where the files are served, from the root of the server. */
export const FILES_FOLDER = 'page/';
export const STYLE_FILE = 'style.css';
/** The script of the page with its library, where the build puts it. */
export const SCRIPT_FILE = 'page.js';
const SCRIPT = join(packageRoot, 'dist', SCRIPT_FILE);

const files = new Map([
  [STYLE_FILE, () => fileResponse(STYLE_FILE, styleSheet, 'text/css; charset=UTF-8')],
  [
    SCRIPT_FILE,
    () => fileResponse(SCRIPT_FILE, readFileSync(SCRIPT, 'utf8'), 'text/javascript; charset=UTF-8'),
  ],
]);

/** The files of the status page. Each is read at the first request and kept: about 60 kB together. */
export class PageFiles {
  readonly #kept = new Map<string, HttpResponse>();

  /** Expected errors: ApiError (`not_served`). */
  response(name: string): HttpResponse {
    const file = this.#kept.get(name) ?? files.get(name)?.();
    if (file === undefined)
      throw new ApiError(404, 'not_served', `there is nothing at ${quoted(`/${FILES_FOLDER}${name}`)}`);
    this.#kept.set(name, file);
    return file;
  }
}

function fileResponse(name: string, body: string, contentType: string): HttpResponse {
  return { body, contentType, validity: { tag: entityTag('page', name, body), isForever: false } };
}

/**
 * The colours of the status page. Each has one meaning everywhere: green is done, blue is in progress, amber is late, red needs
 * attention, teal is execution data, violet is the requester. Text has a contrast of at least 4.5, shapes of 3.
 */
const colours = `
:root {
  color-scheme: light dark;
  --ground: #f2f4f7; --panel: #ffffff; --text: #18202a; --dim: #525d6a; --line: #d8dee6; --link: #0a53be;
  --ok: #12683c; --busy: #1a52b8; --warn: #854f00; --bad: #b01f24; --unknown: #525d6a;
  --done: #1f9159; --doing: #2f6fed; --late: #c47500; --stuck: #d02f2f; --grey: #7b8794;
  --edi: #0b8686; --requester: #8450cf; --peer: #b5651d; --track: #e7ebf0; --edge: #a3aebb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0e1318; --panel: #171d24; --text: #e7ebf0; --dim: #9ca8b6; --line: #2c3540; --link: #82b5ff;
    --ok: #5ccf97; --busy: #8bbaff; --warn: #f2b94b; --bad: #ff948b; --unknown: #9ca8b6;
    --done: #38ad74; --doing: #5c95ff; --late: #eda126; --stuck: #ff655b; --grey: #7d8998;
    --edi: #2bb3b3; --requester: #ad86ff; --peer: #e0a060; --track: #262e38; --edge: #5d6977;
  }
}
`;

const styleSheet = colours + layoutStyle + stripStyle;
