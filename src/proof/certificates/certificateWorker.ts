// The main module of the thread that verifies certificates.
import { parentPort } from 'node:worker_threads';
import { serveCertificates } from './serveCertificates.js';

if (parentPort === null) throw new Error('this is for a thread of the daemon');
serveCertificates(parentPort);
