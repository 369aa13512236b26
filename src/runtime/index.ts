export { backoffMs, doublingMs } from './time/backoff.js';
export { Pause } from './time/Pause.js';
export { every, sleep, systemClock, within } from './time/clock.js';
export {
  childOf,
  orAborted,
  runTogether,
  unlessAborted,
  wasAborted,
  whenAborted,
} from './cancellation/abort.js';
export { AbortError, abortReason, isAbort } from './cancellation/AbortError.js';
export type { Clock, Timer } from './time/clock.js';
export { EndGate } from './cancellation/EndGate.js';
export { Listeners } from './Listeners.js';
export { RunningAverage } from './RunningAverage.js';
export { maskedEndpoint, withoutCredentials, withoutUrlPaths } from './text/credentials.js';
export { asError, exitCodeOf, exitCodes, messageOf, OperatorError } from './errors/OperatorError.js';
export type { ExitReason } from './errors/OperatorError.js';
export { fieldsOf, inShell, jsonIn, named, parseJson } from './text/text.js';
export { quoted, sentence, shortened, unlessThrown } from './text/text.js';
export { systemRandom } from './random.js';
export type { Random } from './random.js';
export { outOfDescriptors, packageRoot, programVersion, userAgent } from './process.js';
export { readNamedFile } from './readNamedFile.js';
export { Output } from './output/Output.js';
export { openSink } from './output/openSink.js';
export { isReaderGone, outputError } from './output/outputError.js';
