import { status } from '@grpc/grpc-js';
import { WireWriter } from '../../flow/index.js';
import type { DescriptorFile } from '../../flow/index.js';
import { quoted } from '../../runtime/index.js';
import { fieldsOf } from './calls.js';
import type { Conversation } from './calls.js';

/** The service under both of its names, with identical messages. */
const SERVICES = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];

// Field numbers of grpc/reflection/v1/reflection.proto.
const ASKED = { host: 1, file: 3, symbol: 4, extension: 5, extensionsOf: 6, services: 7 } as const;
const ANSWERED = { host: 1, request: 2, files: 4, extensions: 5, services: 6, error: 7 } as const;

/**
 * Describes the served interface, so that clients need no files: every service under `proto/` with its methods and
 * messages. None of these has extensions.
 */
export class ReflectionService {
  readonly #byName = new Map<string, DescriptorFile>();
  readonly #bySymbol = new Map<string, DescriptorFile>();
  readonly #services: Buffer;

  private constructor({ files }: { readonly files: readonly DescriptorFile[] }) {
    for (const file of files) {
      this.#byName.set(file.name, file);
      for (const symbol of file.symbols) this.#bySymbol.set(symbol, file);
    }
    const services = files.flatMap((file) => file.services).sort();
    const entries = services.map((name) => new WireWriter().text(1, name).finish());
    this.#services = new WireWriter().elements(1, entries).finish();
  }

  /** The calls by their paths. The files are read for the first one: they take 35 ms, and few callers ask. */
  static conversations(files: () => readonly DescriptorFile[]): Readonly<Record<string, Conversation>> {
    let service: ReflectionService | undefined;
    const answer: Conversation = (request) => {
      service ??= new ReflectionService({ files: files() });
      return service.#answer(request);
    };
    return Object.fromEntries(SERVICES.map((name) => [`/${name}/ServerReflectionInfo`, answer]));
  }

  /** Expected errors: ApiError (bad_request). "Not found" is a response, and the call goes on. */
  #answer(request: Buffer): Buffer {
    const asked = fieldsOf(request);
    const answer = new WireWriter()
      .text(ANSWERED.host, asked.text(ASKED.host))
      .element(ANSWERED.request, request);
    if (asked.has(ASKED.services)) return answer.element(ANSWERED.services, this.#services).finish();
    if (asked.has(ASKED.file)) {
      const name = asked.text(ASKED.file);
      return this.#files(answer, this.#byName.get(name), `file ${quoted(name)}`);
    }
    if (asked.has(ASKED.symbol)) {
      const name = asked.text(ASKED.symbol);
      return this.#files(answer, this.#bySymbol.get(name), `symbol ${quoted(name)}`);
    }
    const type = asked.text(ASKED.extensionsOf);
    if (this.#bySymbol.has(type)) {
      return answer.element(ANSWERED.extensions, new WireWriter().text(1, type).finish()).finish();
    }
    if (asked.has(ASKED.extensionsOf)) return this.#files(answer, undefined, `type ${quoted(type)}`);
    if (asked.has(ASKED.extension)) return this.#files(answer, undefined, 'such extension');
    return error(answer, status.INVALID_ARGUMENT, 'unknown kind of request');
  }

  #files(answer: WireWriter, file: DescriptorFile | undefined, what: string): Buffer {
    if (file === undefined) return error(answer, status.NOT_FOUND, `there is no ${what} here`);
    const files = this.#withImports(file).map(({ encoded }) => encoded);
    return answer.element(ANSWERED.files, new WireWriter().elements(1, files).finish()).finish();
  }

  /** The file first, then everything it imports, each once. */
  #withImports(file: DescriptorFile): readonly DescriptorFile[] {
    const found = new Set([file]);
    for (const { imports } of found) {
      for (const name of imports) {
        const imported = this.#byName.get(name);
        if (imported !== undefined) found.add(imported);
      }
    }
    return [...found];
  }
}

function error(answer: WireWriter, code: status, message: string): Buffer {
  return answer.element(ANSWERED.error, new WireWriter().number(1, code).text(2, message).finish()).finish();
}
