// A worker thread that runs a program of this repository from its source: the URL is its argument.
import { register } from 'tsx/esm/api';

register();
await import(process.argv[2]);
