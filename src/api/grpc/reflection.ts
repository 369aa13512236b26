import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status, type StatusObject } from '@grpc/grpc-js';
import { WireWriter } from '../../flow/index.js';
import { packageRoot, quoted } from '../../runtime/index.js';
import { busy } from '../view/ApiError.js';
import { fieldsOf, type DuplexCall, type ServedCall } from './calls/calls.js';

const MAX_MESSAGES = 1_000;

/** The service under both of its names, with identical messages. */
const SERVICES = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];

// Field numbers of grpc/reflection/v1/reflection.proto.
const REQUEST = { host: 1, file: 3, symbol: 4, extension: 5, extensionsOf: 6, services: 7 } as const;
const RESPONSE = { host: 1, request: 2, files: 4, extensions: 5, services: 6, error: 7 } as const;

/** One file of the interface, as the build describes it (`scripts/describe-proto.mjs`). */
interface DescribedFile {
  readonly name: string;
  /** Names of the files that a client needs for it: its own, then all that these import. */
  readonly needs: readonly string[];
  /** Full names of its services. */
  readonly services: readonly string[];
  /** Full names of everything in it. */
  readonly symbols: readonly string[];
  /** `google.protobuf.FileDescriptorProto`, in base64. */
  readonly encoded: string;
}

/**
 * Describes the served interface, so that clients need no files: every service under `proto/` with its methods and messages. None
 * of these has extensions. Their file is read at once, because an upgrade may replace it, and parsed at the first request.
 * `explain`: the status for what was thrown.
 */
export function reflection(
  explain: (error: unknown) => StatusObject,
): readonly (readonly [path: string, call: ServedCall])[] {
  const text = readFileSync(join(packageRoot, 'dist', 'descriptors.json'), 'utf8');
  let files: DescribedFiles | undefined;
  /** Reads the next message once the response to the one before is taken. */
  const answer = (call: DuplexCall): void => {
    let messages = 0;
    call.on('data', (request: Buffer) => {
      messages += 1;
      call.pause();
      try {
        if (messages > MAX_MESSAGES)
          throw busy(`one call may send ${MAX_MESSAGES} requests; open another one`);
        files ??= describedFiles(text);
        call.write(responseTo(request, files), () => call.resume());
      } catch (error) {
        call.emit('error', explain(error));
      }
    });
    call.on('end', () => call.end());
  };
  return SERVICES.map((service) => [
    `/${service}/ServerReflectionInfo`,
    { type: 'bidi', handler: answer, cost: 'cheap' },
  ]);
}

/** Expected errors: ApiError (bad_request). "Not found" is a response that does not end the call. */
function responseTo(request: Buffer, { byName, bySymbol, services }: DescribedFiles): Buffer {
  const requested = fieldsOf(request);
  const respond = (kind: number, content: Buffer): Buffer =>
    new WireWriter()
      .text(RESPONSE.host, requested.text(REQUEST.host))
      .element(RESPONSE.request, request)
      .element(kind, content)
      .finish();
  const refuse = (code: status, message: string): Buffer =>
    respond(RESPONSE.error, new WireWriter().number(1, code).text(2, message).finish());
  const filesOf = (file: DescribedFile | undefined, what: string): Buffer => {
    if (file === undefined) return refuse(status.NOT_FOUND, `there is no ${what} here`);
    const files = file.needs.map((name) => Buffer.from(byName.get(name)?.encoded ?? '', 'base64'));
    return respond(RESPONSE.files, new WireWriter().elements(1, files).finish());
  };
  if (requested.has(REQUEST.services)) return respond(RESPONSE.services, services);
  if (requested.has(REQUEST.file)) {
    const name = requested.text(REQUEST.file);
    return filesOf(byName.get(name), `file ${quoted(name)}`);
  }
  if (requested.has(REQUEST.symbol)) {
    const name = requested.text(REQUEST.symbol);
    return filesOf(bySymbol.get(name), `symbol ${quoted(name)}`);
  }
  const type = requested.text(REQUEST.extensionsOf);
  if (bySymbol.has(type)) return respond(RESPONSE.extensions, new WireWriter().text(1, type).finish());
  if (requested.has(REQUEST.extensionsOf)) return filesOf(undefined, `type ${quoted(type)}`);
  if (requested.has(REQUEST.extension)) return filesOf(undefined, 'such extension');
  return refuse(status.INVALID_ARGUMENT, 'unknown kind of request');
}

type DescribedFiles = ReturnType<typeof describedFiles>;

/** Every file under `proto/`, by name and by symbol, and `ListServiceResponse`. */
function describedFiles(text: string) {
  const files = JSON.parse(text) as readonly DescribedFile[];
  const services = files.flatMap((file) => file.services).sort();
  const entries = services.map((name) => new WireWriter().text(1, name).finish());
  return {
    byName: new Map(files.map((file) => [file.name, file])),
    bySymbol: new Map(files.flatMap((file) => file.symbols.map((symbol) => [symbol, file] as const))),
    services: new WireWriter().elements(1, entries).finish(),
  };
}
