import type { BuildOptions } from 'esbuild';

/** The repository's directory. */
export const root: string;
/** esbuild's options for bundling sources and their packages into a file that Node.js runs. */
export const forNode: BuildOptions;
