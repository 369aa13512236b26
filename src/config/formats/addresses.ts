import { maskedEndpoint } from '../../runtime/index.js';
import { refuse } from './Format.js';
import { list } from './combined.js';
import type { Format } from './Format.js';

const MAX_ADDRESS_LENGTH = 2_048;

/** Base address of an HTTP interface: no credentials, query or fragment, and no `/` or `/v1` at its end. */
export const httpAddress: Format<string> = (() => {
  const allowed = 'an address such as https://host, or http://host:port/path, to which /v1/… is added';
  const check = (value: unknown): string => {
    if (typeof value !== 'string' || value.length > MAX_ADDRESS_LENGTH) return refuse(value, allowed);
    const refused = (): never => refuse(maskedEndpoint(value), allowed);
    if (/[\s\\]/.test(value) || !/^https?:\/\/[^/]/i.test(value) || !URL.canParse(value)) return refused();
    const { hostname, username, password, search, hash, pathname } = new URL(value);
    const path = pathname.replace(/\/+$/, '');
    const isBase = hostname !== '' && search === '' && hash === '' && !/[?#]/.test(value);
    if (!isBase || username + password !== '' || /(?:^|\/)v1$/.test(path)) return refused();
    return new URL(value).origin + path;
  };
  return { allowed, check, parse: check };
})();

const MAX_ORIGINS = 64;
const ANY_ORIGIN = '*';
const NO_ORIGIN = 'none';

/** Origins of web pages as browsers write them; `*` for all; `none`, alone, for an empty list. */
export const origins: Format<readonly string[]> = (() => {
  const allowed = 'an origin such as https://app.example or http://localhost:3000';
  const origin: Format<string> = {
    allowed: `${allowed}, or ${ANY_ORIGIN}, or ${NO_ORIGIN} alone`,
    parse: (value) => origin.check(value),
    check: (value) => {
      if (value === ANY_ORIGIN || value === NO_ORIGIN) return value;
      if (typeof value !== 'string' || !/^https?:\/\/[^/]+$/i.test(value) || !URL.canParse(value)) {
        return refuse(value, origin.allowed);
      }
      const { origin: normal, username, password } = new URL(value);
      return username + password === '' ? normal : refuse(value, origin.allowed);
    },
  };
  const items = list(origin, MAX_ORIGINS);
  const named = (values: readonly string[]): readonly string[] => {
    if (!values.includes(NO_ORIGIN)) return values;
    return values.length === 1 ? [] : refuse(values.join(), `${NO_ORIGIN} alone`);
  };
  return {
    ...items,
    parse: (value) => named(items.parse(value)),
    check: (value) => named(items.check(value)),
  };
})();
