import type { StatusDocument } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { Logger } from '../../observability/index.js';
import {
  descriptorLimit,
  Listeners,
  openDescriptors,
  OperatorError,
  outOfDescriptors,
  sleep,
} from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { descriptorShares, fewestDescriptors, plentyOfDescriptors } from './descriptorShares.js';

const LOOK_EVERY_MS = 1_000;
/** With fewer left, whatever is opened next may fail: the shares leave more. */
const LOW = 4;

export type Descriptors = ReturnType<typeof watchDescriptors>;

/**
 * The file descriptors of this process. What the daemon needs for itself is set aside before its ports get the rest, so that no
 * number of callers can take them from the store. The limit is read again every second, as are those in use: somebody may lower
 * the one, and the system may run out of the others. Expected errors: OperatorError (`configuration`) when they do not suffice.
 */
export function watchDescriptors(
  started: DaemonConfig,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
) {
  const changed = new Listeners();
  let config = started;
  let limit = descriptorLimit();
  let open: number | undefined;
  let trouble: string | undefined;
  /** Why the store waits for one. */
  let storeWaits: string | undefined;
  let connections = (): Readonly<Record<string, number>> => ({});

  const shares = () => descriptorShares(config, limit);
  /** One line if the ports get less than was asked for. */
  const tell = (): void => {
    const { isEnough, perPort } = shares();
    if (isEnough) return;
    const advice = `raise the limit to ${plentyOfDescriptors(config)}: ${howToRaise(config)}`;
    logger.warn(
      { files: limit, connectionsPerPort: perPort, advice },
      'each port takes fewer connections than api.maxConnections: too few files may be open',
    );
  };
  const look = async (): Promise<void> => {
    const now = descriptorLimit();
    if (now !== limit) {
      logger.warn({ files: now, before: limit }, 'another number of files may be open now');
      limit = now;
      tell();
      changed.tell();
    }
    try {
      open = await openDescriptors();
      trouble =
        limit - (open ?? 0) >= LOW
          ? undefined
          : `${open} of ${limit} files that this process may have open are open`;
    } catch (error) {
      trouble =
        outOfDescriptors(error) === 'system'
          ? 'the system has as many files open as it allows (fs.file-max)'
          : `all ${limit} files that this process may have open are open`;
    }
  };

  const fewest = fewestDescriptors(config);
  if (limit < fewest)
    throw new OperatorError(
      'configuration',
      `Only ${limit} files may be open at once, but with this configuration the daemon needs ${fewest}, and ` +
        `${plentyOfDescriptors(config)} for api.maxConnections. Raise the limit (${howToRaise(config)}).`,
    );
  tell();
  return {
    shares,
    /** `count`: the open connections of each port. */
    count: (count: typeof connections): void => void (connections = count),
    status: (): StatusDocument['descriptors'] => {
      const { metrics, perPort } = shares();
      return {
        limit: limit === Infinity ? null : limit,
        open: open ?? null,
        connections: Object.entries(connections()).map(([port, used]) => ({
          port,
          open: used,
          limit: port === 'metrics' ? metrics : perPort,
        })),
      };
    },
    /** The store cannot open a file, for a reason in words; `undefined`: it can again. */
    storeWaits: (why: string | undefined): void => void (storeWaits = why),
    /** Why something cannot be opened now, and what to do; `undefined` while it can. */
    trouble: (): string | undefined => {
      const why = trouble ?? storeWaits;
      return why && `${why}: raise the limit (${howToRaise(config)}), or end what uses them up`;
    },
    /** `api.maxConnections` has changed. */
    reload: ({ api: { maxConnections } }: DaemonConfig): void => {
      config = { ...config, api: { ...config.api, maxConnections } };
      changed.tell();
    },
    /** Calls back when the shares may have changed. */
    onChange: (listener: () => void): void => void changed.add(listener),
    /** Expected errors: the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        await look();
        await sleep(clock, LOOK_EVERY_MS, signal);
      }
    },
  };
}

function howToRaise(config: DaemonConfig): string {
  const plenty = plentyOfDescriptors(config);
  return `ulimit -n ${plenty}, or LimitNOFILE=${plenty} of the systemd unit`;
}
