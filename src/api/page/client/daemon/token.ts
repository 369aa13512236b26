import { fromRoot } from './root.js';

/** Key in the tab's storage, which is lost with the tab. Another daemon behind the same proxy has another one. */
const KEPT_AS = `flow-collection-indexer.token ${fromRoot('')}`;

export function keepToken(token: string): void {
  sessionStorage.setItem(KEPT_AS, token);
}

/** The headers of a request to the daemon. */
export function ownHeaders(): Record<string, string> {
  const token = sessionStorage.getItem(KEPT_AS);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}
