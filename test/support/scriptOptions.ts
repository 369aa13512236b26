import { readFileSync } from 'node:fs';
import { parseArgs, type ParseArgsConfig } from 'node:util';

const USAGE_ERROR = 64;

/** Ends a script that cannot do what it is asked. */
export function refuse(why: string): never {
  process.stderr.write(`${why}\n`);
  process.exit(USAGE_ERROR);
}

/** `--help` prints the comment at the script's head; what cannot be read ends it with a sentence and that comment. */
export function scriptOptions<const T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  const [own] = process.argv.slice(2).join('\0').split('\0--\0');
  if (own?.split('\0').includes('--help')) {
    process.stdout.write(`${headComment()}\n`);
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    return refuse(`${error instanceof Error ? error.message : String(error)}\n\n${headComment()}`);
  }
}

function headComment(): string {
  const lines = readFileSync(process.argv[1] ?? '', 'utf8').split('\n');
  const end = lines.findIndex((line) => !/^(?:\/\/|\/?\s*\*)/.test(line));
  const words = lines.slice(0, end).map((line) => line.replace(/^(?:\/\/|\/\*\*| ?\*\/| ?\*) ?/, ''));
  return words
    .map((line) => line.replace(/\*\/$/, '').trimEnd())
    .join('\n')
    .trim();
}
