import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { Copy, DockerfileParser, PropertyInstruction } from 'dockerfile-ast';
import type { Dockerfile, Instruction } from 'dockerfile-ast';
import { scratchDirectory } from '../support/program.js';

const run = promisify(execFile);

/** Folders of the image that its steps name; each is a folder of the stage here. */
const IMAGE_FOLDERS = /(?<![\w.$}/-])\/(?=(?:app|data|opt|usr\/local)\b)/g;
/** An absolute path that is left after that would be one of this machine. */
const OUTSIDE = /(?<![\w.$}/-])\/\w/;

interface Stage {
  readonly root: string;
  workdir: string;
  readonly environment: Record<string, string>;
}

/** Carries out a Dockerfile without Docker, in a folder for each stage. What only root can do (`chown`) is noted instead. */
export class DockerfileRun {
  readonly #dockerfile: Dockerfile;
  readonly #context: string;
  readonly #stages = new Map<string, Stage>();
  readonly #arguments: Record<string, string> = {};
  readonly #bin = scratchDirectory();
  #stage: Stage | undefined;
  user = 'root';
  /** The owners that `chown` gave, by path of the image. */
  readonly owners: Record<string, string> = {};
  readonly labels: Record<string, string> = {};
  entry: readonly string[] = [];
  healthCheck: readonly string[] = [];

  constructor(options: { readonly context: string }) {
    this.#context = options.context;
    this.#dockerfile = DockerfileParser.parse(readFileSync(join(options.context, 'Dockerfile'), 'utf8'));
    const shim = `#!/bin/sh\necho "$1 $2" >> '${this.#bin}/owners'\n`;
    writeFileSync(join(this.#bin, 'chown'), shim, { mode: 0o755 });
  }

  get image(): Stage {
    if (this.#stage === undefined) throw new Error('the Dockerfile has no stage');
    return this.#stage;
  }

  path(ofImage: string): string {
    return this.#here(ofImage, this.image);
  }

  async build(): Promise<void> {
    for (const instruction of this.#dockerfile.getInstructions()) await this.#step(instruction);
    const notes = join(this.#bin, 'owners');
    if (!existsSync(notes)) return;
    for (const line of readFileSync(notes, 'utf8').trim().split('\n')) {
      const [owner = '', path = ''] = line.split(' ');
      this.owners[path.slice(this.image.root.length)] = owner;
    }
  }

  async #step(instruction: Instruction): Promise<void> {
    const words = this.#expanded(instruction);
    const text = words.join(' ');
    switch (instruction.getKeyword()) {
      case 'ARG':
        this.#set(this.#arguments, instruction);
        return;
      case 'FROM':
        this.#stage = { root: scratchDirectory(), workdir: '/', environment: {} };
        if (words[1]?.toUpperCase() === 'AS') this.#stages.set(words[2] ?? '', this.#stage);
        return;
      case 'WORKDIR':
        this.image.workdir = text;
        mkdirSync(this.path(text), { recursive: true });
        return;
      case 'ENV':
        this.#set(this.image.environment, instruction);
        return;
      case 'LABEL':
        this.#set(this.labels, instruction);
        return;
      case 'COPY':
        this.#copy(instruction);
        return;
      case 'RUN':
        await this.#run(instruction.getArgumentsContent() ?? '');
        return;
      case 'USER':
        this.user = text;
        return;
      case 'ENTRYPOINT':
        this.entry = JSON.parse(text) as string[];
        return;
      case 'CMD':
        this.entry = [...this.entry, ...(JSON.parse(text) as string[])];
        return;
      case 'HEALTHCHECK':
        this.healthCheck = JSON.parse(text.slice(text.indexOf('['))) as string[];
        return;
      case 'EXPOSE':
      case 'VOLUME':
        return;
      default:
        throw new Error(`a step that this test does not know: ${instruction.getKeyword()}`);
    }
  }

  #expanded(instruction: Instruction): string[] {
    return instruction.getExpandedArguments().map((argument) => this.#filledIn(argument.getValue()));
  }

  #filledIn(text: string): string {
    return text.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => this.#arguments[name] ?? '');
  }

  #set(into: Record<string, string>, instruction: Instruction): void {
    if (!(instruction instanceof PropertyInstruction)) throw new Error('not a list of names and values');
    for (const property of instruction.getProperties())
      into[property.getName()] = this.#filledIn(property.getValue() ?? '');
  }

  #copy(instruction: Instruction): void {
    const from = instruction instanceof Copy ? instruction.getFromFlag()?.getValue() : undefined;
    const words = this.#expanded(instruction).filter((word) => !word.startsWith('--'));
    const target = words.pop() ?? '';
    const stage = from === null || from === undefined ? undefined : this.#stages.get(from);
    if (typeof from === 'string' && stage === undefined) throw new Error(`no stage ${from}`);
    for (const word of words) {
      const source = stage === undefined ? this.#ofContext(word) : this.#here(word, stage);
      const isFolder = target.endsWith('/');
      const to = this.path(isFolder ? join(target, basename(word)) : target);
      cpSync(source, to, { recursive: true, verbatimSymlinks: true });
    }
  }

  /** What .dockerignore leaves out is not there for Docker. */
  #ofContext(path: string): string {
    const ignored = readFileSync(join(this.#context, '.dockerignore'), 'utf8').split('\n');
    if (ignored.includes(path.split('/')[0] ?? '')) throw new Error(`${path} is not given to Docker`);
    return join(this.#context, path);
  }

  #here(path: string, { root, workdir }: Stage): string {
    return join(root, path.startsWith('/') ? path : join(workdir, path));
  }

  async #run(script: string): Promise<void> {
    const { environment, root, workdir } = this.image;
    // All packages for development are a gigabyte that the repository has; checkout.test.ts installs them.
    if (script.startsWith('npm ci --include=dev ')) {
      symlinkSync(realpathSync(join(this.#context, 'node_modules')), join(root, workdir, 'node_modules'));
      return;
    }
    const here = script.replaceAll(IMAGE_FOLDERS, `${root}/`);
    if (OUTSIDE.test(here.replaceAll(root, 'R'))) throw new Error(`a step would leave its folder: ${script}`);
    mkdirSync(join(root, 'usr/local/bin'), { recursive: true });
    await run('sh', ['-e', '-c', here], {
      cwd: join(root, workdir),
      env: {
        ...process.env,
        ...environment,
        PATH: `${this.#bin}:${process.env['PATH'] ?? ''}`,
        npm_config_prefer_offline: 'true',
      },
      maxBuffer: 1 << 26,
    });
  }
}
