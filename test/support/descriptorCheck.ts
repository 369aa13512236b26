import descriptor, { type IFileDescriptorProto } from 'protobufjs8/ext/descriptor.js';

type Optional = 'options' | 'typeName' | 'clientStreaming' | 'serverStreaming';
/** As it is decoded: lists are there where they are empty. */
type Whole<T> = T extends (infer Item)[]
  ? Whole<Item>[]
  : T extends object
    ? { [Key in keyof T as Exclude<Key, Optional>]-?: Whole<T[Key]> } & Pick<T, keyof T & Optional>
    : T;

export type FileShape = Whole<IFileDescriptorProto>;
type MessageShape = FileShape['messageType'][number];
type EnumShape = FileShape['enumType'][number];

const MESSAGE = 11;
const ENUM = 14;

export function decodeFile(encoded: Uint8Array): FileShape {
  const { FileDescriptorProto } = descriptor;
  return FileDescriptorProto.toObject(FileDescriptorProto.decode(encoded), { arrays: true }) as FileShape;
}

interface Types {
  readonly messages: readonly (readonly [name: string, message: MessageShape])[];
  readonly enums: readonly (readonly [name: string, one: EnumShape])[];
}

/** By their full names, and those within them. */
export function typesOf(scope: string, messages: MessageShape[], enums: EnumShape[]): Types {
  const within = messages.map((one) => typesOf(`${scope}.${one.name}`, one.nestedType, one.enumType));
  const named = <T extends { name: string }>(all: T[]) =>
    all.map((one) => [`${scope}.${one.name}`, one] as const);
  return {
    messages: [...named(messages), ...within.flatMap((inner) => inner.messages)],
    enums: [...named(enums), ...within.flatMap((inner) => inner.enums)],
  };
}

/**
 * What a strict client finds wrong with files, each of which may use what it imports and nothing else, besides names, numbers and
 * types. The rules are those of Go's protobuf library, which refuses a whole file for a single breach.
 */
export function descriptorFaults(files: readonly FileShape[]): readonly string[] {
  const faults: string[] = [];
  const names = files.map(({ name }) => name);
  if (new Set(names).size < names.length) faults.push('a file is there twice');
  const typesIn = (file: FileShape) => typesOf(file.package, file.messageType, file.enumType);
  const all = files.map((file) => ({ file, ...typesIn(file) }));
  const homes = new Map<string, { readonly file: string; readonly type: number }>(
    all.flatMap(({ file, messages, enums }) => [
      ...messages.map(([name]) => [`.${name}`, { file: file.name, type: MESSAGE }] as const),
      ...enums.map(([name]) => [`.${name}`, { file: file.name, type: ENUM }] as const),
    ]),
  );
  for (const { file, messages } of all) {
    const { name, syntax, service: services } = file;
    const dependency = file.dependency as string[];
    if (syntax !== 'proto3') faults.push(`${name} has the syntax ${syntax}`);
    for (const imported of dependency)
      if (!names.includes(imported)) faults.push(`${name} imports ${imported}, which is not there`);
    const resolve = (what: string, type: number, typeName = ''): void => {
      const home = homes.get(typeName);
      if (home?.type !== type) faults.push(`${what} names ${typeName}, which is not there, or another thing`);
      else if (home.file !== name && !dependency.includes(home.file))
        faults.push(`${what} names ${typeName} of ${home.file}, which ${name} does not import`);
    };
    for (const [scope, message] of messages) {
      faults.push(...tornOneofs(scope, message));
      for (const { name: field, type, typeName } of message.field)
        if (type === MESSAGE || type === ENUM) resolve(`${scope}.${field}`, type, typeName);
    }
    for (const method of services.flatMap((service) => service.method))
      for (const typeName of [method.inputType, method.outputType]) resolve(method.name, MESSAGE, typeName);
  }
  return faults;
}

/** Of a oneof all fields are there, one after the other. That of a field which may be absent is none, and its field says so. */
function tornOneofs(scope: string, { field: fields, oneofDecl: oneofs }: MessageShape): string[] {
  const torn = oneofs.filter(({ name }, index) => {
    const places = fields.flatMap(({ oneofIndex }, place) => (oneofIndex === index ? [place] : []));
    const [first = 0, last = -1] = [places[0], places.at(-1)];
    const isMarked = !name.startsWith('_') || fields[first]?.proto3Optional === true;
    return !isMarked || places.length === 0 || last - first + 1 !== places.length;
  });
  return torn.map(({ name }) => `${scope}.${name} is empty, torn apart or not marked`);
}
