import { basename } from 'node:path';
import { format } from 'prettier';
import { plantedBugs as planted } from '../simulation/plantedBugs.js';
import { proofs } from './proofs.js';
import type { Results } from './results.js';

const HEAD = `# Reliability

<!-- Written by \`npm run reliability\`: run that again, and edit nothing here. -->

What the daemon promises, the script that holds each promise to account, and what its last run found. Every script can be
run by anybody on any machine; a sample of each is part of \`npm test\`. \`npm run reliability\` runs all of them, \`-- --only
NAME\` one of them, and writes this page.
`;

/** Share of planted bugs that must be found, in percent. */
const WANTED_SCORE = 92;

export function reliabilityPage({ outcomes, coverage, ...results }: Results): Promise<string> {
  // Where they are planted now: files move.
  const places = new Map(planted.map(({ file, name }) => [name, file]));
  const plantedBugs = results.plantedBugs.filter(({ name }) => places.has(name));
  const rows = proofs.map(({ name }) => {
    const outcome = outcomes[name];
    if (outcome === undefined) return `| ${name} | not run yet | | | |`;
    const { runs, unit, failures, remark, date, seconds } = outcome;
    const what = `${runs.toLocaleString('en')} ${unit}${remark === undefined ? '' : ` (${remark})`}`;
    return `| ${name} | ${what} | ${failures} | ${Math.round(seconds)} s | ${date} |`;
  });
  const promises = proofs.flatMap(({ name, promise, command }) => [
    `**${name}**: ${promise}`,
    '',
    `    ${command}`,
    '',
  ]);
  const bySeeds = plantedBugs.filter(({ seeds }) => seeds !== null).length;
  const byTests = plantedBugs.filter(({ seeds, heldBy }) => seeds === null && heldBy !== null).length;
  const score = plantedBugs.length === 0 ? 0 : ((bySeeds + byTests) * 100) / plantedBugs.length;
  const bugs = plantedBugs.map(
    ({ name, seeds, heldBy }) => `| ${name} | \`${places.get(name)}\` | ${seeds ?? nameOf(heldBy)} |`,
  );
  const rooms = coverage.map(({ room, lines, branches }) => `| ${room} | ${lines} % | ${branches} % |`);
  return format(
    [
      HEAD,
      '| proof | runs | failures | took | on |',
      '| --- | --- | ---: | ---: | --- |',
      ...rows,
      '',
      '## Promises',
      '',
      ...promises,
      '## Planted bugs',
      '',
      `Mutation score: ${score.toFixed(0)} % (${bySeeds + byTests} of ${plantedBugs.length}; wanted: ${WANTED_SCORE} %). Each is put into a ` +
        `copy of the source, alone, and the simulation runs seeds until one fails: it found ${bySeeds}. What it does ` +
        'not reach, because the part that waits looks at everything again before it waits, or because things would have to meet ' +
        `that nothing but chance brings together, is held by unit tests that fail when the bug is planted: ${byTests}.`,
      '',
      '| bug | in | seeds needed, or the test that fails |',
      '| --- | --- | ---: |',
      ...bugs,
      '',
      '## Coverage',
      '',
      'What the unit and integration tests take of the rooms that hold the data or prove it. The scripts above run real processes and come on top.',
      '',
      '| room | lines | branches |',
      '| --- | ---: | ---: |',
      ...rooms,
      '',
    ].join('\n'),
    { parser: 'markdown', printWidth: 120, proseWrap: 'always' },
  );
}

function nameOf(heldBy: string | null): string {
  return heldBy === null ? 'not found' : `\`${basename(heldBy, '.test.ts')}\``;
}
