import type { BuildOptions } from 'esbuild';

/** Of the repository. */
export const root: string;
/** How sources become a file that Node.js runs, with the packages it needs in it. */
export const forNode: BuildOptions;
