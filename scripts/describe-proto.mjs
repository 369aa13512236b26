// Describes the interface files for gRPC reflection, once per build. A compiler would do it in one call, but is no package of npm.
import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor/index.js';
import { root as folder } from './bundle.mjs';

const { common, Enum, MapField, parse, Root, Service, Type } = protobuf;
const { FileDescriptorProto } = descriptor;
const protoRoot = join(folder, 'proto');

/** The one well-known file that `proto/` imports. The parser includes it. */
const TIMESTAMP = 'google/protobuf/timestamp.proto';

/**
 * Describes every file under `proto/`, and the well-known one that they import, as a compiler would: its name, the names of the
 * files that a client needs for it (its own, then all that these import), the full names of its services, those of everything in it (services and their methods, messages and their fields, enums and their values),
 * and its `google.protobuf.FileDescriptorProto` in base64. The parser's own descriptors are unusable: they lack imports and JSON
 * names, use short type names, misname map entries, and merge all files of a package.
 */
export function describeProto() {
  const root = new Root();
  const names = readdirSync(protoRoot, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.proto'))
    .sort();
  const files = names.map((from) => {
    // What is parsed next gets this name, and clears it.
    parse.filename = from;
    const text = readFileSync(join(protoRoot, from), 'utf8');
    const { package: inPackage = '', imports } = parse(text, root, { keepCase: true });
    return { name: from.replaceAll(sep, '/'), inPackage, imports: imports ?? [], from };
  });
  root.addJSON(common.get(TIMESTAMP).nested);
  root.resolveAll();
  const timestamp = { name: TIMESTAMP, inPackage: 'google.protobuf', imports: [], from: null };
  const all = [...files, timestamp];
  return all.map((file) => {
    const { nestedArray } = root.lookup(file.inPackage);
    const needs = new Set([file.name]);
    for (const name of needs) {
      for (const imported of all.find((each) => each.name === name).imports) needs.add(imported);
    }
    const objects = nestedArray.filter(({ filename }) => (filename ?? null) === file.from);
    return { needs: [...needs], ...describe(file, objects) };
  });
}

/** Describes one file by what it declares, in the terms of google/protobuf/descriptor.proto. */
function describe({ name, imports, inPackage }, objects) {
  const symbols = [];
  /** Returns the name of what it adds. */
  const declare = (object) => {
    symbols.push(object.fullName.slice(1));
    return object.name;
  };
  const placeOf = ({ parent }) => parent?.fullName ?? '';
  const messagesOf = (some) => some.filter((each) => each instanceof Type).map(message);
  const enumsOf = (some) => some.filter((each) => each instanceof Enum).map(enumeration);

  const message = (type) => ({
    name: declare(type),
    field: type.fieldsArray.map((each) => field(each, type.oneofsArray)),
    nestedType: [
      ...messagesOf(type.nestedArray),
      ...type.fieldsArray.filter((each) => each instanceof MapField).map(mapEntry),
    ],
    enumType: enumsOf(type.nestedArray),
    oneofDecl: type.oneofsArray.map((oneof) => ({ name: oneof.name })),
  });

  const field = (of, oneofs) => {
    const isMap = of instanceof MapField;
    return {
      name: declare(of),
      number: of.id,
      label: of.repeated || isMap ? 'LABEL_REPEATED' : 'LABEL_OPTIONAL',
      ...(isMap ? { type: 'TYPE_MESSAGE', typeName: `${placeOf(of)}.${entryName(of)}` } : typeOf(of)),
      options: deprecation(of),
      oneofIndex: of.partOf === null ? undefined : oneofs.indexOf(of.partOf),
      proto3Optional: of.options?.proto3_optional,
      jsonName: jsonName(of.name),
    };
  };

  /** A type and, of messages and enums, its full name with a leading dot. */
  const typeOf = ({ type, resolvedType }) =>
    resolvedType === null
      ? { type: `TYPE_${type.toUpperCase()}` }
      : {
          type: resolvedType instanceof Enum ? 'TYPE_ENUM' : 'TYPE_MESSAGE',
          typeName: resolvedType.fullName,
        };

  const mapEntry = (of) => {
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

  const enumeration = (of) => ({
    name: declare(of),
    value: Object.entries(of.values).map(([word, number]) => {
      // As in C++, enum values are siblings of their enum.
      symbols.push(`${placeOf(of).slice(1)}.${word}`);
      return { name: word, number };
    }),
  });

  const method = (of) => ({
    name: declare(of),
    inputType: of.resolvedRequestType?.fullName,
    outputType: of.resolvedResponseType?.fullName,
    options: deprecation(of),
    clientStreaming: of.requestStream,
    serverStreaming: of.responseStream,
  });

  const services = objects.filter((each) => each instanceof Service);
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
    services: services.map(({ fullName }) => fullName.slice(1)),
    symbols,
    encoded: Buffer.from(FileDescriptorProto.encode(file).finish()).toString('base64'),
  };
}

function deprecation({ options }) {
  return options?.deprecated === true ? { deprecated: true } : undefined;
}

/** As compilers do: underscores are removed, and the character after each becomes a capital. */
function jsonName(name) {
  return name.replaceAll(/_+(.?)/g, (_, next) => next.toUpperCase());
}

/** As compilers do, and clients insist: the field's JSON name capitalised, and `Entry`. */
function entryName({ name }) {
  const json = jsonName(name);
  return `${json.charAt(0).toUpperCase()}${json.slice(1)}Entry`;
}
