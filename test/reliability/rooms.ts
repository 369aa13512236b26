/** The rooms whose tests are measured themselves, by planted bugs and by coverage. */
export const MEASURED: readonly string[] = ['jobqueue', 'collections', 'storage', 'proof'];

/** Of lines, and of branches, that the unit and integration tests must take in each of them. */
export const LEAST_PERCENT = 95;

/** How much of a room the tests take, in percent. */
export interface RoomCoverage {
  readonly room: string;
  readonly lines: number;
  readonly branches: number;
}
