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
    const { nestedArray } = root.lookup(inPackage) as protobuf.Namespace;
    const objects = nestedArray.filter(({ filename }) => (filename ?? null) === from);
    return describe({ name, inPackage, imports }, objects, library);
  });
}

/** Describes one file by what it declares. */
function describe(
  {
    name,
    imports,
    inPackage,
  }: { readonly name: string; readonly imports: readonly string[]; readonly inPackage: string },
  objects: readonly protobuf.ReflectionObject[],
  { Enum, MapField, Service, Type }: typeof protobuf,
): DescriptorFile {
  const symbols: string[] = [];
  const services: string[] = [];
  const declare = (object: protobuf.ReflectionObject): void => void symbols.push(object.fullName.slice(1));
  const placeOf = ({ parent }: protobuf.ReflectionObject): string => parent?.fullName ?? '';
  const isType = (object: protobuf.ReflectionObject): object is protobuf.Type => object instanceof Type;
  const isEnum = (object: protobuf.ReflectionObject): object is protobuf.Enum => object instanceof Enum;
  const isService = (object: protobuf.ReflectionObject): object is protobuf.Service =>
    object instanceof Service;

  /** A type by its number and, for messages and enums, its full name with a leading dot. */
  const typeOf = ({ type, resolvedType }: Pick<protobuf.Field, 'type' | 'resolvedType'>) =>
    resolvedType === null
      ? { type: scalarType(type) }
      : { type: isEnum(resolvedType) ? ENUM_TYPE : MESSAGE_TYPE, typeName: resolvedType.fullName };

  const message = (type: protobuf.Type): Buffer => {
    declare(type);
    const maps = type.fieldsArray.filter((each) => each instanceof MapField);
    const fields = type.fieldsArray.map((each) => field(each, type.oneofsArray));
    const nested = [...type.nestedArray.filter(isType).map(message), ...maps.map(mapEntry)];
    const oneofs = type.oneofsArray.map((oneof) => new WireWriter().text(1, oneof.name).finish());
    return new WireWriter()
      .text(MESSAGE.name, type.name)
      .elements(MESSAGE.fields, fields)
      .elements(MESSAGE.nested, nested)
      .elements(MESSAGE.enums, type.nestedArray.filter(isEnum).map(enumeration))
      .elements(MESSAGE.oneofs, oneofs)
      .finish();
  };

  const field = (of: protobuf.Field, oneofs: readonly protobuf.OneOf[]): Buffer => {
    declare(of);
    const { id, partOf, options } = of;
    if (of instanceof MapField) {
      const typeName = `${placeOf(of)}.${entryName(of)}`;
      return fieldOf({ name: of.name, id, label: LABEL.repeated, type: MESSAGE_TYPE, typeName });
    }
    const label = of.repeated ? LABEL.repeated : LABEL.optional;
    const oneof = partOf === null ? undefined : oneofs.indexOf(partOf);
    const isDeprecated = options?.['deprecated'] === true;
    return fieldOf({ name: of.name, id, label, ...typeOf(of), oneof, isDeprecated });
  };

  const mapEntry = (of: protobuf.MapField): Buffer => {
    const label = LABEL.optional;
    const key = fieldOf({ name: 'key', id: 1, label, type: scalarType(of.keyType) });
    const value = fieldOf({ name: 'value', id: 2, label, ...typeOf(of) });
    symbols.push(`${placeOf(of).slice(1)}.${entryName(of)}`);
    return new WireWriter()
      .text(MESSAGE.name, entryName(of))
      .elements(MESSAGE.fields, [key, value])
      .element(MESSAGE.options, new WireWriter().number(OPTION.mapEntry, 1).finish())
      .finish();
  };

  const enumeration = (of: protobuf.Enum): Buffer => {
    declare(of);
    const values = Object.entries(of.values).map(([word, number]) => {
      // As in C++, enum values are siblings of their enum.
      symbols.push(`${placeOf(of).slice(1)}.${word}`);
      return new WireWriter().text(1, word).presentNumber(2, number).finish();
    });
    return new WireWriter().text(ENUM.name, of.name).elements(ENUM.values, values).finish();
  };

  const method = (of: protobuf.Method): Buffer => {
    declare(of);
    const { resolvedRequestType, resolvedResponseType, requestStream, responseStream } = of;
    const encoded = new WireWriter()
      .text(METHOD.name, of.name)
      .text(METHOD.request, resolvedRequestType?.fullName ?? '')
      .text(METHOD.response, resolvedResponseType?.fullName ?? '');
    if (of.options?.['deprecated'] === true)
      encoded.element(METHOD.options, new WireWriter().number(OPTION.methodDeprecated, 1).finish());
    return encoded
      .number(METHOD.clientStreams, requestStream === true ? 1 : 0)
      .number(METHOD.serverStreams, responseStream === true ? 1 : 0)
      .finish();
  };

  const service = (of: protobuf.Service): Buffer => {
    declare(of);
    services.push(of.fullName.slice(1));
    return new WireWriter()
      .text(SERVICE.name, of.name)
      .elements(SERVICE.methods, of.methodsArray.map(method))
      .finish();
  };

  const encoded = new WireWriter()
    .text(FILE.name, name)
    .text(FILE.package, inPackage)
    .elements(
      FILE.imports,
      imports.map((imported) => Buffer.from(imported)),
    )
    .elements(FILE.messages, objects.filter(isType).map(message))
    .elements(FILE.enums, objects.filter(isEnum).map(enumeration))
    .elements(FILE.services, objects.filter(isService).map(service))
    .text(FILE.syntax, 'proto3')
    .finish();
  return { name, imports, services, symbols, encoded };
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
