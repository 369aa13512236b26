import { LENGTH_DELIMITED, WireReader } from './WireReader.js';
import { WireWriter } from './WireWriter.js';

/** One described file, as far as it has to be known to find things in it. */
export interface DescriptorFile {
  readonly name: string;
  /** Names of the files that it imports. */
  readonly imports: readonly string[];
  /** Full names of its services. */
  readonly services: readonly string[];
  /** Full names of everything in it: services and their methods, messages and their fields, enums and their values. */
  readonly symbols: readonly string[];
  /** `google.protobuf.FileDescriptorProto`. */
  readonly encoded: Buffer;
}

// Field numbers of google/protobuf/descriptor.proto.
const NAME = 1;
const FILE = { package: 2, imports: 3, messages: 4, enums: 5, services: 6 } as const;
const MESSAGE = { fields: 2, nested: 3, enums: 4 } as const;
const MEMBERS = 2;
const FIELD_TYPE = 6;
const METHOD = { request: 2, response: 3 } as const;

/**
 * What a set of descriptors describes. Their imports are found out by what they name: the protobuf library leaves them out of
 * the descriptors that it makes, and without them nobody can resolve a file. Expected errors: `WireError`, for bytes that are
 * no descriptor.
 */
export function readDescriptors(set: readonly Buffer[]): readonly DescriptorFile[] {
  const contents = set.map((encoded) => new Contents(encoded));
  const homes = new Map(
    contents.flatMap((content) => content.symbols.map((symbol) => [symbol, content.name] as const)),
  );
  return contents.map(({ name, encoded, symbols, services, references }) => {
    const named = references.map(({ scope, reference }) =>
      homes.get(resolved(scope, reference, homes) ?? ''),
    );
    const imports = [...new Set(named)].filter((home) => home !== undefined && home !== name) as string[];
    const names = imports.map((imported) => Buffer.from(imported));
    return {
      ...{ name, services, symbols, imports },
      encoded: Buffer.concat([encoded, new WireWriter().elements(FILE.imports, names).finish()]),
    };
  });
}

/** The full name that is meant: the innermost scope that knows it, as in C++. */
function resolved(scope: string, reference: string, known: ReadonlyMap<string, string>): string | undefined {
  if (reference.startsWith('.')) return reference.slice(1);
  const scopes = scope.split('.');
  for (let length = scopes.length; length >= 0; length -= 1) {
    const name = [...scopes.slice(0, length), reference].join('.');
    if (known.has(name)) return name;
  }
  return undefined;
}

class Contents {
  readonly encoded: Buffer;
  readonly name: string;
  readonly services: readonly string[];
  readonly symbols: string[] = [];
  /** The types that its fields and methods name, and where. */
  readonly references: { readonly scope: string; readonly reference: string }[] = [];

  constructor(encoded: Buffer) {
    const file = new Parts(encoded);
    const scope = file.text(FILE.package);
    this.encoded = encoded;
    this.name = file.text(NAME);
    for (const message of file.all(FILE.messages)) this.#addMessage(scope, message);
    for (const enumeration of file.all(FILE.enums)) this.#addGroup(scope, enumeration, []);
    this.services = file
      .all(FILE.services)
      .map((service) => this.#addGroup(scope, service, [METHOD.request, METHOD.response]));
  }

  #addMessage(scope: string, encoded: Buffer): void {
    const message = new Parts(encoded);
    const name = `${scope}.${message.text(NAME)}`;
    this.symbols.push(name);
    for (const field of message.all(MESSAGE.fields)) this.#addMember(name, field, [FIELD_TYPE]);
    for (const nested of message.all(MESSAGE.nested)) this.#addMessage(name, nested);
    for (const enumeration of message.all(MESSAGE.enums)) this.#addGroup(name, enumeration, []);
  }

  /** A service with its methods, or an enum with its values. Returns its full name. */
  #addGroup(scope: string, encoded: Buffer, types: readonly number[]): string {
    const group = new Parts(encoded);
    const name = `${scope}.${group.text(NAME)}`;
    this.symbols.push(name);
    for (const member of group.all(MEMBERS)) this.#addMember(name, member, types);
    return name;
  }

  /** `types`: the fields of a member that name a type. */
  #addMember(scope: string, encoded: Buffer, types: readonly number[]): void {
    const member = new Parts(encoded);
    this.symbols.push(`${scope}.${member.text(NAME)}`);
    for (const type of types) {
      const reference = member.text(type);
      if (reference !== '') this.references.push({ scope, reference });
    }
  }
}

/** What a message holds of texts and messages, by field, in order. */
class Parts {
  readonly #parts = new Map<number, Buffer[]>();

  constructor(encoded: Buffer) {
    const reader = new WireReader(encoded);
    while (reader.next()) {
      if (reader.wireType !== LENGTH_DELIMITED) {
        reader.skip();
        continue;
      }
      const parts = this.#parts.get(reader.field) ?? [];
      parts.push(reader.view());
      this.#parts.set(reader.field, parts);
    }
  }

  all(field: number): readonly Buffer[] {
    return this.#parts.get(field) ?? [];
  }

  text(field: number): string {
    return this.all(field).at(-1)?.toString('utf8') ?? '';
  }
}
