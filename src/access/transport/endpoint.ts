import { isIPv6 } from 'node:net';
import { maskedEndpoint, OperatorError, quoted } from '../../runtime/index.js';

/** Where an access node listens. */
export interface Endpoint {
  /** `host:port` in lower case, IPv6 in brackets: the label of metrics and logs. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /**
   * True for `grpcs://`. The certificate must be signed by an authority that Node.js trusts, or by one in the file
   * that the environment variable GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names: Flow nodes sign theirs with their own key.
   */
  readonly tls: boolean;
}

const FORM = 'Write grpc://host:port, grpcs://host:port or host:port.';
const MORE_THAN_PLACE =
  'it may hold nothing but a host and a port (a token belongs in the file of access.metadataFile)';
const HOST_NAME = /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/;

/**
 * Parses `grpc://host:port`, `grpcs://host:port` or a bare `host:port`, which means grpc. IPv6 addresses are in
 * brackets. Expected errors: OperatorError `configuration`; credentials, path and query do not appear in its message.
 */
export function parseEndpoint(text: string): Endpoint {
  const refuse = (reason: string): never => {
    const what = `${quoted(maskedEndpoint(text))} is not an access node`;
    throw new OperatorError('configuration', `${what}: ${reason}. ${FORM}`);
  };
  const [, scheme, rest = ''] = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(.*)$/is.exec(text.trim()) ?? [];
  const protocol = scheme?.toLowerCase() ?? 'grpc';
  const address = rest.endsWith('/') ? rest.slice(0, -1) : rest;
  const isKnown = protocol === 'grpc' || protocol === 'grpcs';
  const wrong = [
    ...(isKnown ? [] : [`its protocol must be grpc or grpcs, not ${protocol}`]),
    ...(/[/?#@\s]/.test(address) ? [MORE_THAN_PLACE] : []),
  ];
  if (wrong.length > 0) return refuse(wrong.join(', and '));

  const colon = address.lastIndexOf(':');
  const bracket = address.lastIndexOf(']');
  if (colon <= bracket) return refuse('it has no port');
  const hostText = address.slice(0, colon).toLowerCase();
  const portText = address.slice(colon + 1);
  const port = Number(portText);
  if (!/^\d{1,5}$/.test(portText) || port < 1 || port > 65_535)
    return refuse('its port is not one of 1 to 65535');

  if (hostText.startsWith('[') || hostText.includes(':')) {
    const host = hostText.replace(/^\[(.*)\]$/, '$1');
    if (host === hostText) return refuse('an IPv6 address must be in brackets');
    if (!isIPv6(host)) return refuse('the text in brackets is not an IPv6 address');
    return { name: `[${host}]:${port}`, host, port, tls: protocol === 'grpcs' };
  }
  if (hostText === '') return refuse('it has no host');
  if (!HOST_NAME.test(hostText)) return refuse('its host is neither a name nor an address');
  return { name: `${hostText}:${port}`, host: hostText, port, tls: protocol === 'grpcs' };
}
