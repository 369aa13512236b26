/** The address of something of the daemon: this script is one folder below its root, wherever a proxy puts that. */
export function fromRoot(path: string): string {
  return new URL(`../${path}`, import.meta.url).href;
}
