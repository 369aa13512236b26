import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot, quoted } from '../../runtime/index.js';
import { entityTag } from '../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../http/types.js';
import { ApiError } from '../view/ApiError.js';
import { styleSheet } from './styleSheet.js';

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
