import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import type protobuf from 'protobufjs';
import { protoRoot, requirePackage } from './protocol.js';
import { WireWriter } from './WireWriter.js';

/** One described file, with just what is needed to find things in it. */
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

// Field numbers and enum values of google/protobuf/descriptor.proto.
const FILE = { name: 1, package: 2, imports: 3, messages: 4, enums: 5, services: 6, syntax: 12 } as const;
const MESSAGE = { name: 1, fields: 2, nested: 3, enums: 4, options: 7, oneofs: 8 } as const;
const FIELD = {
  name: 1,
  number: 3,
  label: 4,
  type: 5,
  typeName: 6,
  options: 8,
  oneof: 9,
  jsonName: 10,
} as const;
const ENUM = { name: 1, values: 2 } as const;
const SERVICE = { name: 1, methods: 2 } as const;
const METHOD = { name: 1, request: 2, response: 3, options: 4, clientStreams: 5, serverStreams: 6 } as const;
const OPTION = { fieldDeprecated: 3, mapEntry: 7, methodDeprecated: 33 } as const;
const LABEL = { optional: 1, repeated: 3 } as const;
const MESSAGE_TYPE = 11;
const ENUM_TYPE = 14;
const SCALAR_TYPES: Readonly<Record<string, number>> = {
  double: 1,
  float: 2,
  int64: 3,
  uint64: 4,
  int32: 5,
  fixed64: 6,
  fixed32: 7,
  bool: 8,
  string: 9,
  bytes: 12,
  uint32: 13,
  sfixed32: 15,
  sfixed64: 16,
  sint32: 17,
  sint64: 18,
};

/** The one well-known file that `proto/` imports. The parser includes it. */
const TIMESTAMP = 'google/protobuf/timestamp.proto';

/**
 * Describes every file under `proto/`, and the well-known one that they import, as a compiler would. The parser's own
 * descriptors are unusable: they lack imports and JSON names, use short type names, misname map entries, and merge all
 * files of a package. Synchronous; reads the files.
 */
export function loadDescriptors(): readonly DescriptorFile[] {
  const library = requirePackage('protobufjs') as typeof protobuf;
  const root = new library.Root();
  const names = readdirSync(protoRoot, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.proto'))
    .sort();
  const files = names.map((from) => {
    // Missing from the types: what is parsed next gets this name, and clears it.
    Object.assign(library.parse, { filename: from });
    const text = readFileSync(join(protoRoot, from), 'utf8');
    const { package: inPackage = '', imports = [] } = library.parse(text, root, { keepCase: true });
    return { name: from.replaceAll(sep, '/'), inPackage, imports, from };
  });
  root.addJSON(library.common.get(TIMESTAMP)?.nested ?? {});
  root.resolveAll();
  const timestamp = { name: TIMESTAMP, inPackage: 'google.protobuf', imports: [], from: null };
  return [...files, timestamp].map(({ name, inPackage, imports, from }) => {
    const content = new Content(library);
    const { nestedArray } = root.lookup(inPackage) as protobuf.Namespace;
    for (const object of nestedArray) if ((object.filename ?? null) === from) content.add(object);
    return content.file(name, inPackage, imports);
  });
}

/** Collects the declarations of one file. */
class Content {
  readonly #library: typeof protobuf;
  readonly #symbols: string[] = [];
  readonly #services: string[] = [];
  readonly #encoded = { messages: [] as Buffer[], enums: [] as Buffer[], services: [] as Buffer[] };

  constructor(library: typeof protobuf) {
    this.#library = library;
  }

  add(object: protobuf.ReflectionObject): void {
    if (object instanceof this.#library.Type) this.#encoded.messages.push(this.#message(object));
    else if (object instanceof this.#library.Enum) this.#encoded.enums.push(this.#enum(object));
    else if (object instanceof this.#library.Service) this.#encoded.services.push(this.#service(object));
  }

  file(name: string, inPackage: string, imports: readonly string[]): DescriptorFile {
    const { messages, enums, services } = this.#encoded;
    const encoded = new WireWriter()
      .text(FILE.name, name)
      .text(FILE.package, inPackage)
      .elements(
        FILE.imports,
        imports.map((imported) => Buffer.from(imported)),
      )
      .elements(FILE.messages, messages)
      .elements(FILE.enums, enums)
      .elements(FILE.services, services)
      .text(FILE.syntax, 'proto3')
      .finish();
    return { name, imports, services: this.#services, symbols: this.#symbols, encoded };
  }

  #message(type: protobuf.Type): Buffer {
    this.#declare(type);
    const nested = type.nestedArray.filter((object) => object instanceof this.#library.Type);
    const enums = type.nestedArray.filter((object) => object instanceof this.#library.Enum);
    const maps = type.fieldsArray.filter((field) => field instanceof this.#library.MapField);
    return new WireWriter()
      .text(MESSAGE.name, type.name)
      .elements(
        MESSAGE.fields,
        type.fieldsArray.map((field) => this.#field(field, type.oneofsArray)),
      )
      .elements(MESSAGE.nested, [
        ...nested.map((message) => this.#message(message)),
        ...maps.map((field) => this.#mapEntry(field)),
      ])
      .elements(
        MESSAGE.enums,
        enums.map((enumeration) => this.#enum(enumeration)),
      )
      .elements(
        MESSAGE.oneofs,
        type.oneofsArray.map(({ name }) => new WireWriter().text(1, name).finish()),
      )
      .finish();
  }

  #field(field: protobuf.Field, oneofs: readonly protobuf.OneOf[]): Buffer {
    this.#declare(field);
    const { name, id, partOf, options } = field;
    if (field instanceof this.#library.MapField) {
      const entry = `${field.parent?.fullName ?? ''}.${entryName(field)}`;
      return fieldOf({ name, id, label: LABEL.repeated, type: MESSAGE_TYPE, typeName: entry });
    }
    const label = field.repeated ? LABEL.repeated : LABEL.optional;
    const oneof = partOf === null ? undefined : oneofs.indexOf(partOf);
    const isDeprecated = options?.['deprecated'] === true;
    return fieldOf({ name, id, label, ...this.#typeOf(field), oneof, isDeprecated });
  }

  #mapEntry(field: protobuf.MapField): Buffer {
    const label = LABEL.optional;
    const key = fieldOf({ name: 'key', id: 1, label, type: scalarType(field.keyType) });
    const value = fieldOf({ name: 'value', id: 2, label, ...this.#typeOf(field) });
    const name = entryName(field);
    this.#symbols.push(`${field.parent?.fullName.slice(1) ?? ''}.${name}`);
    return new WireWriter()
      .text(MESSAGE.name, name)
      .elements(MESSAGE.fields, [key, value])
      .element(MESSAGE.options, new WireWriter().number(OPTION.mapEntry, 1).finish())
      .finish();
  }

  #enum(enumeration: protobuf.Enum): Buffer {
    this.#declare(enumeration);
    const values = Object.entries(enumeration.values).map(([name, number]) => {
      // As in C++, enum values are siblings of their enum.
      this.#symbols.push(`${enumeration.parent?.fullName.slice(1) ?? ''}.${name}`);
      return new WireWriter().text(1, name).presentNumber(2, number).finish();
    });
    return new WireWriter().text(ENUM.name, enumeration.name).elements(ENUM.values, values).finish();
  }

  #service(service: protobuf.Service): Buffer {
    this.#declare(service);
    this.#services.push(service.fullName.slice(1));
    const methods = service.methodsArray.map((method) => {
      this.#declare(method);
      const { resolvedRequestType, resolvedResponseType, requestStream, responseStream } = method;
      const encoded = new WireWriter()
        .text(METHOD.name, method.name)
        .text(METHOD.request, resolvedRequestType?.fullName ?? '')
        .text(METHOD.response, resolvedResponseType?.fullName ?? '');
      if (method.options?.['deprecated'] === true) {
        encoded.element(METHOD.options, new WireWriter().number(OPTION.methodDeprecated, 1).finish());
      }
      return encoded
        .number(METHOD.clientStreams, requestStream === true ? 1 : 0)
        .number(METHOD.serverStreams, responseStream === true ? 1 : 0)
        .finish();
    });
    return new WireWriter().text(SERVICE.name, service.name).elements(SERVICE.methods, methods).finish();
  }

  #declare(object: protobuf.ReflectionObject): void {
    this.#symbols.push(object.fullName.slice(1));
  }

  /** A type by its number and, for messages and enums, its full name with a leading dot. */
  #typeOf({ type, resolvedType }: Pick<protobuf.Field, 'type' | 'resolvedType'>): {
    readonly type: number;
    readonly typeName?: string;
  } {
    if (resolvedType === null) return { type: scalarType(type) };
    const isEnum = resolvedType instanceof this.#library.Enum;
    return { type: isEnum ? ENUM_TYPE : MESSAGE_TYPE, typeName: resolvedType.fullName };
  }
}

function scalarType(name: string): number {
  const type = SCALAR_TYPES[name];
  if (type === undefined) throw new Error(`proto/ has a field of the unknown type ${name}`);
  return type;
}

function fieldOf(field: {
  readonly name: string;
  readonly id: number;
  readonly label: number;
  readonly type: number;
  readonly typeName?: string;
  readonly oneof?: number | undefined;
  readonly isDeprecated?: boolean;
}): Buffer {
  const { name, id, label, type, typeName = '', oneof, isDeprecated = false } = field;
  const encoded = new WireWriter()
    .text(FIELD.name, name)
    .number(FIELD.number, id)
    .number(FIELD.label, label)
    .number(FIELD.type, type)
    .text(FIELD.typeName, typeName);
  if (isDeprecated)
    encoded.element(FIELD.options, new WireWriter().number(OPTION.fieldDeprecated, 1).finish());
  // The first oneof has index 0, which must be written: its presence says that there is one.
  if (oneof !== undefined) encoded.presentNumber(FIELD.oneof, oneof);
  return encoded.text(FIELD.jsonName, jsonName(name)).finish();
}

/** As compilers do: underscores are removed, and the character after each becomes a capital. */
function jsonName(name: string): string {
  return name.replaceAll(/_+(.?)/g, (_, next: string) => next.toUpperCase());
}

/** As compilers do, and clients insist: the field's JSON name capitalised, and `Entry`. */
function entryName({ name }: Pick<protobuf.Field, 'name'>): string {
  const json = jsonName(name);
  return `${json.charAt(0).toUpperCase()}${json.slice(1)}Entry`;
}
