/**
 * Major versions of Node.js with releases in which any client can crash an HTTP/2 server (nodejs/node#64850): seen in
 * 22.23.3 and 26.8.1.
 */
const UNSOUND_MAJORS: readonly number[] = [22, 26];

/** False if a few bytes from any client of an HTTP/2 server may end the process. `version`: like `process.version`. */
export function hasSoundHttp2(version: string): boolean {
  return !UNSOUND_MAJORS.includes(Number.parseInt(version.slice(1), 10));
}
