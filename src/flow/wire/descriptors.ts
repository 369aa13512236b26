import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, sep } from 'node:path';
import type protobuf from 'protobufjs';
import type * as descriptor from 'protobufjs/ext/descriptor/index.js';
import { packageRoot } from '../../runtime/index.js';

/** Loads a package when it is first used: what reads the interface takes a tenth of the start, and is needed after it. */
const requirePackage = createRequire(import.meta.url);

/** The folder of the interface files. */
const protoRoot = join(packageRoot, 'proto');

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

/** Describes one file by what it declares, in the terms of google/protobuf/descriptor.proto. */
function describe(
  { name, imports, inPackage }: Pick<DescriptorFile, 'name' | 'imports'> & { readonly inPackage: string },
  objects: readonly protobuf.ReflectionObject[],
  { Enum, MapField, Service, Type }: typeof protobuf,
): DescriptorFile {
  const symbols: string[] = [];
  /** Returns the name of what it adds. */
  const declare = (object: protobuf.ReflectionObject): string => {
    symbols.push(object.fullName.slice(1));
    return object.name;
  };
  const placeOf = ({ parent }: protobuf.ReflectionObject): string => parent?.fullName ?? '';
  const messagesOf = (some: readonly protobuf.ReflectionObject[]) =>
    some.filter((each) => each instanceof Type).map(message);
  const enumsOf = (some: readonly protobuf.ReflectionObject[]) =>
    some.filter((each) => each instanceof Enum).map(enumeration);

  const message = (type: protobuf.Type): object => ({
    name: declare(type),
    field: type.fieldsArray.map((each) => field(each, type.oneofsArray)),
    nestedType: [
      ...messagesOf(type.nestedArray),
      ...type.fieldsArray.filter((each) => each instanceof MapField).map(mapEntry),
    ],
    enumType: enumsOf(type.nestedArray),
    oneofDecl: type.oneofsArray.map((oneof) => ({ name: oneof.name })),
  });

  const field = (of: protobuf.Field, oneofs: readonly protobuf.OneOf[]): object => {
    const isMap = of instanceof MapField;
    return {
      name: declare(of),
      number: of.id,
      label: of.repeated || isMap ? 'LABEL_REPEATED' : 'LABEL_OPTIONAL',
      ...(isMap ? { type: 'TYPE_MESSAGE', typeName: `${placeOf(of)}.${entryName(of)}` } : typeOf(of)),
      options: deprecation(of),
      oneofIndex: of.partOf === null ? undefined : oneofs.indexOf(of.partOf),
      jsonName: jsonName(of.name),
    };
  };

  /** A type and, of messages and enums, its full name with a leading dot. */
  const typeOf = ({ type, resolvedType }: Pick<protobuf.Field, 'type' | 'resolvedType'>) =>
    resolvedType === null
      ? { type: `TYPE_${type.toUpperCase()}` }
      : {
          type: resolvedType instanceof Enum ? 'TYPE_ENUM' : 'TYPE_MESSAGE',
          typeName: resolvedType.fullName,
        };

  const mapEntry = (of: protobuf.MapField): object => {
    symbols.push(`${placeOf(of).slice(1)}.${entryName(of)}`);
    const label = 'LABEL_OPTIONAL';
    const key = typeOf({ type: of.keyType, resolvedType: null });
    return {
      name: entryName(of),
      field: [
        { name: 'key', number: 1, label, ...key, jsonName: 'key' },
        { name: 'value', number: 2, label, ...typeOf(of), jsonName: 'value' },
      ],
      options: { mapEntry: true },
    };
  };

  const enumeration = (of: protobuf.Enum): object => ({
    name: declare(of),
    value: Object.entries(of.values).map(([word, number]) => {
      // As in C++, enum values are siblings of their enum.
      symbols.push(`${placeOf(of).slice(1)}.${word}`);
      return { name: word, number };
    }),
  });

  const method = (of: protobuf.Method): object => ({
    name: declare(of),
    inputType: of.resolvedRequestType?.fullName,
    outputType: of.resolvedResponseType?.fullName,
    options: deprecation(of),
    clientStreaming: of.requestStream,
    serverStreaming: of.responseStream,
  });

  const services = objects.filter((each) => each instanceof Service);
  const { FileDescriptorProto } = requirePackage('protobufjs/ext/descriptor/index.js') as typeof descriptor;
  const file = FileDescriptorProto.fromObject({
    name,
    package: inPackage,
    dependency: imports,
    messageType: messagesOf(objects),
    enumType: enumsOf(objects),
    service: services.map((of) => ({ name: declare(of), method: of.methodsArray.map(method) })),
    syntax: 'proto3',
  });
  return {
    name,
    imports,
    services: services.map(({ fullName }) => fullName.slice(1)),
    symbols,
    encoded: Buffer.from(FileDescriptorProto.encode(file).finish()),
  };
}

function deprecation({ options }: protobuf.ReflectionObject): object | undefined {
  return options?.['deprecated'] === true ? { deprecated: true } : undefined;
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

/** Files with one service each. */
const serviceFiles = {
  'flow.access.AccessAPI': 'flow/access/access.proto',
  'flow.executiondata.ExecutionDataAPI': 'flow/executiondata/executiondata.proto',
} as const;

export type FlowService = keyof typeof serviceFiles;

/** The methods of a service, read from the text of its file: a parser would have to load all of `proto/` at the start. */
export function serviceMethods(service: FlowService): readonly string[] {
  const text = readFileSync(join(protoRoot, serviceFiles[service]), 'utf8');
  return [...text.matchAll(/^ *rpc (\w+)/gm)].map(([, method = '']) => method);
}
