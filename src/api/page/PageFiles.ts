import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageRoot, quoted } from '../../runtime/index.js';
import { entityTag } from '../http/responses/cacheHeaders.js';
import type { HttpResponse } from '../http/types.js';
import { ApiError } from '../view/ApiError.js';
import { styleSheet } from './styleSheet.js';

/** Where the build puts the scripts of the page, whatever this file was started from. */
const SCRIPTS = join(packageRoot, 'dist/api/page/client');

/** The library of the page, by the names that its scripts import. */
export const libraries = {
  preact: 'preact.js',
  'preact/hooks': 'preact-hooks.js',
  'preact/jsx-runtime': 'preact-jsx-runtime.js',
} as const;

/** The path below which the files are served. */
export const FILES_PATH = '/page/';
export const STYLE_FILE = 'style.css';
/** The script that begins. */
export const MAIN_FILE = 'main.js';

const SCRIPT_TYPE = 'text/javascript; charset=UTF-8';
const STYLE_TYPE = 'text/css; charset=UTF-8';

/**
 * The files of the status page: its scripts, as built, its style and its library. Read when they are first wanted, and kept: some
 * 100 kB, as many as the package has.
 */
export class PageFiles {
  #files: ReadonlyMap<string, HttpResponse> | undefined;

  /** The scripts of the page, the library among them. */
  scripts(): readonly string[] {
    return [...this.#all().keys()].filter((name) => name !== STYLE_FILE);
  }

  /** Expected errors: ApiError (`not_served`). */
  response(name: string): HttpResponse {
    const file = this.#all().get(name);
    if (file === undefined)
      throw new ApiError(404, 'not_served', `there is nothing at ${quoted(FILES_PATH + name)}`);
    return file;
  }

  #all(): ReadonlyMap<string, HttpResponse> {
    this.#files ??= new Map(readAll());
    return this.#files;
  }
}

function* readAll(): Generator<[string, HttpResponse]> {
  yield [STYLE_FILE, fileResponse(STYLE_FILE, styleSheet, STYLE_TYPE)];
  for (const name of readdirSync(SCRIPTS).filter((each) => each.endsWith('.js'))) {
    yield [name, fileResponse(name, readFileSync(join(SCRIPTS, name), 'utf8'), SCRIPT_TYPE)];
  }
  const { resolve } = createRequire(import.meta.url);
  for (const [library, name] of Object.entries(libraries)) {
    yield [name, fileResponse(name, readFileSync(resolve(library), 'utf8'), SCRIPT_TYPE)];
  }
}

function fileResponse(name: string, body: string, contentType: string): HttpResponse {
  return { body, contentType, validity: { tag: entityTag('page', name, body), isForever: false } };
}
