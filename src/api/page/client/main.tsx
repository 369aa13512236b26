import { render } from 'preact';
import { App } from './App.js';
import { readCodes } from './daemon/codes.js';
import { Connection } from './daemon/Connection.js';
import type { View } from './types.js';

const root = document.getElementById('page');
if (root === null) throw new Error('the page has no place for its content');
const codes = readCodes();
const show = (view: View): void =>
  render(<App view={view} codes={codes} onToken={() => connection.askAgain()} />, root);
const connection = new Connection({ onChange: show });
show({ status: undefined, receivedAtMs: 0, trouble: undefined, newest: undefined });
connection.start();
