/** The thread that verifies certificates has not answered: it ended, or was closed. Ask again later. */
export class CertificateThreadError extends Error {
  override readonly name = 'CertificateThreadError';
}
