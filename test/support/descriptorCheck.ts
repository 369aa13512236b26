import descriptor from 'protobufjs8/ext/descriptor.js';

/** As much of descriptor.proto as is checked. */
export interface FileShape {
  name: string;
  package?: string;
  dependency?: string[];
  syntax?: string;
  messageType?: MessageShape[];
  enumType?: EnumShape[];
  service?: {
    name: string;
    method?: {
      name: string;
      inputType: string;
      outputType: string;
      clientStreaming?: boolean;
      serverStreaming?: boolean;
    }[];
  }[];
}

export interface MessageShape {
  name: string;
  field?: FieldShape[];
  nestedType?: MessageShape[];
  enumType?: EnumShape[];
  oneofDecl?: { name: string }[];
  options?: { mapEntry?: boolean };
}

export interface FieldShape {
  name: string;
  number: number;
  label: number;
  type: number;
  typeName?: string;
  jsonName?: string;
  oneofIndex?: number;
}

interface EnumShape {
  name: string;
  value?: { name: string; number: number }[];
}

const REPEATED = 3;
const MESSAGE = 11;
const ENUM = 14;
/** Fields of a map's key: neither floating point, nor bytes, nor anything with a name. */
const KEY_TYPES = [3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18];
const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const FULL_NAME = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/;

export function decodeFile(encoded: Uint8Array): FileShape {
  const { FileDescriptorProto } = descriptor;
  return FileDescriptorProto.toObject(FileDescriptorProto.decode(encoded)) as FileShape;
}

/**
 * What a strict client finds wrong with proto3 files, each of which may use what it imports and nothing else. The rules are
 * those of Go's protobuf library, which refuses a whole file for a single breach, and of compilers.
 */
export function descriptorFaults(files: readonly FileShape[]): readonly string[] {
  const faults: string[] = [];
  const homes = new Map<string, { readonly file: string; readonly kind: 'message' | 'enum' | 'other' }>();
  const byName = new Map(files.map((file) => [file.name, file]));
  if (byName.size < files.length) faults.push('a file is there twice');

  const declare = (file: string, name: string, kind: 'message' | 'enum' | 'other'): void => {
    if (!IDENTIFIER.test(name.split('.').at(-1) ?? '')) faults.push(`${name} is no name`);
    if (homes.has(name)) faults.push(`${name} is declared twice`);
    homes.set(name, { file, kind });
  };
  const declareEnum = (file: string, scope: string, { name, value = [] }: EnumShape): void => {
    declare(file, `${scope}.${name}`, 'enum');
    for (const one of value) declare(file, `${scope}.${one.name}`, 'other');
  };
  const declareMessage = (file: string, scope: string, message: MessageShape): void => {
    const name = `${scope}.${message.name}`;
    declare(file, name, 'message');
    for (const field of message.field ?? []) declare(file, `${name}.${field.name}`, 'other');
    for (const oneof of message.oneofDecl ?? []) declare(file, `${name}.${oneof.name}`, 'other');
    for (const nested of message.nestedType ?? []) declareMessage(file, name, nested);
    for (const nested of message.enumType ?? []) declareEnum(file, name, nested);
  };
  for (const file of files) {
    const { name, package: scope = '', dependency = [], syntax } = file;
    if (syntax !== 'proto3') faults.push(`${name} has the syntax ${String(syntax)}`);
    if (!FULL_NAME.test(scope)) faults.push(`${name} has the package ${scope}`);
    if (new Set(dependency).size < dependency.length) faults.push(`${name} imports a file twice`);
    for (const imported of dependency) {
      if (imported === name) faults.push(`${name} imports itself`);
      if (!byName.has(imported)) faults.push(`${name} imports ${imported}, which is not there`);
    }
    for (const message of file.messageType ?? []) declareMessage(name, scope, message);
    for (const one of file.enumType ?? []) declareEnum(name, scope, one);
    for (const service of file.service ?? []) {
      declare(name, `${scope}.${service.name}`, 'other');
      for (const method of service.method ?? []) {
        declare(name, `${scope}.${service.name}.${method.name}`, 'other');
      }
    }
  }

  const resolve = (file: FileShape, what: string, typeName: string, kind: 'message' | 'enum'): void => {
    const home = homes.get(typeName.slice(1));
    if (!typeName.startsWith('.')) faults.push(`${what} gives its type by the short name ${typeName}`);
    else if (home?.kind !== kind) faults.push(`${what} names ${typeName}, which is no ${kind}`);
    else if (home.file !== file.name && file.dependency?.includes(home.file) !== true) {
      faults.push(`${what} names ${typeName} of ${home.file}, which ${file.name} does not import`);
    }
  };
  for (const file of files) {
    const scope = file.package ?? '';
    for (const message of file.messageType ?? []) checkMessage(file, scope, message, { faults, resolve });
    for (const one of file.enumType ?? []) checkEnum(scope, one, faults);
    for (const service of file.service ?? []) {
      for (const { name, inputType, outputType } of service.method ?? []) {
        resolve(file, `${service.name}.${name}`, inputType, 'message');
        resolve(file, `${service.name}.${name}`, outputType, 'message');
      }
    }
  }
  return faults;
}

interface Check {
  readonly faults: string[];
  readonly resolve: (file: FileShape, what: string, typeName: string, kind: 'message' | 'enum') => void;
}

function checkMessage(file: FileShape, scope: string, message: MessageShape, check: Check): void {
  const { faults } = check;
  const {
    field: fields = [],
    nestedType: nested = [],
    oneofDecl: oneofs = [],
    enumType: enums = [],
  } = message;
  const name = `${scope}.${message.name}`;
  if (new Set(fields.map(({ number }) => number)).size < fields.length) {
    faults.push(`${name} has a number twice`);
  }
  // Two fields that differ in nothing but underscores and case are one to JSON.
  const folded = fields.map((field) => field.name.replaceAll('_', '').toLowerCase());
  if (new Set(folded).size < folded.length) faults.push(`${name} has two fields with one JSON name`);
  for (const [index, oneof] of oneofs.entries()) {
    const members = fields.flatMap(({ oneofIndex }, place) => (oneofIndex === index ? [place] : []));
    const [first = 0, last = 0] = [members[0], members.at(-1)];
    if (members.length === 0) faults.push(`${name}.${oneof.name} has no field`);
    else if (last - first + 1 !== members.length) faults.push(`${name}.${oneof.name} is torn apart`);
  }
  for (const field of fields) checkField(file, message, name, field, check);
  for (const entry of nested.filter(({ options }) => options?.mapEntry === true)) {
    const users = fields.filter((field) => field.typeName === `.${name}.${entry.name}`);
    const [user] = users;
    if (users.length !== 1 || user === undefined)
      faults.push(`${name}.${entry.name} is no field's map entry`);
    else if (user.label !== REPEATED) faults.push(`${name}.${user.name} is a map and not repeated`);
    else if (entry.name !== mapEntryName(user.name)) {
      faults.push(
        `${name}.${user.name} has a map entry called ${entry.name}, not ${mapEntryName(user.name)}`,
      );
    }
    checkMapEntry(`${name}.${entry.name}`, entry, faults);
  }
  for (const one of nested) checkMessage(file, name, one, check);
  for (const one of enums) checkEnum(name, one, faults);
}

function checkField(
  file: FileShape,
  message: MessageShape,
  scope: string,
  field: FieldShape,
  { faults, resolve }: Check,
): void {
  const name = `${scope}.${field.name}`;
  const { number, label, type, typeName, oneofIndex } = field;
  if (!(number >= 1 && number <= 536_870_911) || (number >= 19_000 && number <= 19_999)) {
    faults.push(`${name} has the number ${number}`);
  }
  if (label !== 1 && label !== REPEATED) faults.push(`${name} has the label ${label}`);
  if (field.jsonName !== jsonName(field.name)) faults.push(`${name} has the JSON name ${field.jsonName}`);
  if (oneofIndex !== undefined) {
    if (oneofIndex >= (message.oneofDecl?.length ?? 0))
      faults.push(`${name} is of a oneof that is not there`);
    if (label === REPEATED) faults.push(`${name} is repeated within a oneof`);
  }
  if (type === MESSAGE || type === ENUM) {
    resolve(file, name, typeName ?? '', type === ENUM ? 'enum' : 'message');
  } else if (!(type >= 1 && type <= 18) || type === 10 || typeName !== undefined) {
    faults.push(`${name} has the type ${type} ${typeName ?? ''}`);
  }
}

function checkMapEntry(name: string, entry: MessageShape, faults: string[]): void {
  const [key, value, ...more] = entry.field ?? [];
  const isKey = key?.name === 'key' && key.number === 1 && KEY_TYPES.includes(key.type);
  const isValue = value?.name === 'value' && value.number === 2;
  const isPlain = [key, value].every((field) => field?.label === 1) && more.length === 0;
  const isBare = [entry.nestedType, entry.enumType, entry.oneofDecl].every(
    (list) => (list ?? []).length === 0,
  );
  if (!isKey || !isValue || !isPlain || !isBare) faults.push(`${name} has other fields than a map entry`);
}

function checkEnum(scope: string, { name, value = [] }: EnumShape, faults: string[]): void {
  const full = `${scope}.${name}`;
  if (value[0]?.number !== 0) faults.push(`${full} does not begin with 0`);
  if (new Set(value.map(({ number }) => number)).size < value.length)
    faults.push(`${full} has a number twice`);
}

function jsonName(name: string): string {
  let isUpper = false;
  let json = '';
  for (const character of name) {
    if (character !== '_') json += isUpper ? character.toUpperCase() : character;
    isUpper = character === '_';
  }
  return json;
}

function mapEntryName(name: string): string {
  const json = jsonName(name);
  return `${json.slice(0, 1).toUpperCase()}${json.slice(1)}Entry`;
}
