/** A line for a thing that holds. */
export function holds(what: string): void {
  process.stdout.write(`ok  ${what}\n`);
}
