import { methods } from '../../src/devnet/index.js';
import { seededRandom } from '../support/seededRandom.js';
import { expectationOf, kindFor, type Expectation } from './expectations.js';
import { matrixFaults, type FaultClass, type MatrixFault } from './faults.js';
import { subjects, type Phase, type Subject } from './subjects.js';

export interface Cell {
  /** `METHOD/FAULT/PHASE/MODE/WAY`, without blanks. */
  readonly name: string;
  readonly subject: Subject;
  readonly fault: MatrixFault;
  readonly kind: FaultClass;
  readonly phase: Phase;
  readonly expected: Expectation;
}

export const cells: readonly Cell[] = subjects.flatMap((subject) =>
  matrixFaults
    .filter((fault) => canStrike(subject, fault))
    .flatMap((fault) =>
      subject.phases
        .map((phase) => cellOf(subject, fault, phase))
        // A head can have fallen only below one that was told before.
        .filter(({ kind, phase }) => kind !== 'fallen head' || phase !== 'start'),
    ),
);

export function cellNamed(wanted: string): Cell {
  const cell = cells.find(({ name }) => name === wanted);
  if (cell === undefined) throw new Error(`there is no cell ${wanted}`);
  return cell;
}

/** A fault that makes no sense for one of the methods would leave that one honest. `*` has what makes sense for all. */
function canStrike({ struck }: Subject, fault: MatrixFault): boolean {
  if (fault.isOfStreams === true && !struck.some((method) => methods[method].isStream)) return false;
  return struck.every((method) => fault.rulesFor(method).length > 0);
}

function cellOf(subject: Subject, fault: MatrixFault, phase: Phase): Cell {
  const { method, mode, way, told } = subject;
  const name = [method, fault.name, phase, mode, way].join('/').replaceAll(' ', '-');
  const expected = expectationOf({ ...subject, phases: [phase] }, fault);
  return { name, subject, fault, kind: kindFor(told, fault), phase, expected };
}

/** One of each method, class of fault and demand: another one with every seed. */
export function sampleOf(named: readonly Cell[], seed: number): Cell[] {
  const random = seededRandom(seed);
  const alike = new Map<string, Cell[]>();
  for (const cell of named) {
    const key = `${cell.subject.method}/${cell.kind}/${demandOf(cell)}`;
    alike.set(key, [...(alike.get(key) ?? []), cell]);
  }
  return [...alike.values()].flatMap((group) => group[Math.floor(random.next() * group.length)] ?? []);
}

export function demandOf({ expected }: Cell): string {
  const { mustProgress, codes, exitCode } = expected;
  if (mustProgress) return 'progress';
  return [...codes, ...(exitCode === undefined ? [] : [`exit ${exitCode}`])].join(' or ');
}
