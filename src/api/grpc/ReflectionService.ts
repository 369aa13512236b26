import { status } from '@grpc/grpc-js';
import { loadDescriptors, WireWriter } from '../../flow/index.js';
import type { DescriptorFile } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { fieldsOf } from './calls/calls.js';
import type { Conversation } from './calls/calls.js';

/** The service under both of its names, with identical messages. */
const SERVICES = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];

// Field numbers of grpc/reflection/v1/reflection.proto.
const REQUEST = { host: 1, file: 3, symbol: 4, extension: 5, extensionsOf: 6, services: 7 } as const;
const RESPONSE = { host: 1, request: 2, files: 4, extensions: 5, services: 6, error: 7 } as const;

/** Every file under `proto/`, by name and by symbol. */
class DescribedFiles {
  readonly byName = new Map<string, DescriptorFile>();
  readonly bySymbol = new Map<string, DescriptorFile>();
  /** `ListServiceResponse`. */
  readonly services: Buffer;

  constructor(files: readonly DescriptorFile[]) {
    for (const file of files) {
      this.byName.set(file.name, file);
      for (const symbol of file.symbols) this.bySymbol.set(symbol, file);
    }
    const services = files.flatMap((file) => file.services).sort();
    const entries = services.map((name) => new WireWriter().text(1, name).finish());
    this.services = new WireWriter().elements(1, entries).finish();
  }
}

/**
 * Describes the served interface, so that clients need no files: every service under `proto/` with its methods and
 * messages. None of these has extensions. The files are read at the first request.
 */
export class ReflectionService {
  #files: DescribedFiles | undefined;

  conversations(): Readonly<Record<string, Conversation>> {
    const respond: Conversation = (request) => this.#respond(request);
    return Object.fromEntries(SERVICES.map((service) => [`/${service}/ServerReflectionInfo`, respond]));
  }

  /** Expected errors: ApiError (bad_request). "Not found" is a response that does not end the call. */
  #respond(request: Buffer): Buffer {
    const requested = fieldsOf(request);
    const { byName, bySymbol, services } = this.#described();
    const response = new WireWriter()
      .text(RESPONSE.host, requested.text(REQUEST.host))
      .element(RESPONSE.request, request);
    if (requested.has(REQUEST.services)) return response.element(RESPONSE.services, services).finish();
    if (requested.has(REQUEST.file)) {
      const name = requested.text(REQUEST.file);
      return this.#filesIn(response, byName.get(name), `file ${quoted(name)}`);
    }
    if (requested.has(REQUEST.symbol)) {
      const name = requested.text(REQUEST.symbol);
      return this.#filesIn(response, bySymbol.get(name), `symbol ${quoted(name)}`);
    }
    const type = requested.text(REQUEST.extensionsOf);
    if (bySymbol.has(type)) {
      return response.element(RESPONSE.extensions, new WireWriter().text(1, type).finish()).finish();
    }
    if (requested.has(REQUEST.extensionsOf))
      return this.#filesIn(response, undefined, `type ${quoted(type)}`);
    if (requested.has(REQUEST.extension)) return this.#filesIn(response, undefined, 'such extension');
    return error(response, status.INVALID_ARGUMENT, 'unknown kind of request');
  }

  #described(): DescribedFiles {
    return (this.#files ??= new DescribedFiles(loadDescriptors()));
  }

  #filesIn(response: WireWriter, file: DescriptorFile | undefined, what: string): Buffer {
    if (file === undefined) return error(response, status.NOT_FOUND, `there is no ${what} here`);
    const files = this.#withImports(file).map(({ encoded }) => encoded);
    return response.element(RESPONSE.files, new WireWriter().elements(1, files).finish()).finish();
  }

  /** The file first, then everything it imports, each once. */
  #withImports(file: DescriptorFile): readonly DescriptorFile[] {
    const found = new Set([file]);
    for (const { imports } of found) {
      for (const name of imports) {
        const imported = this.#described().byName.get(name);
        if (imported !== undefined) found.add(imported);
      }
    }
    return [...found];
  }
}

function error(response: WireWriter, code: status, message: string): Buffer {
  return response
    .element(RESPONSE.error, new WireWriter().number(1, code).text(2, message).finish())
    .finish();
}
