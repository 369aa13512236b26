/**
 * How flow-go hashed headers and payloads, newest first. H1 to v0.26.0, H3 to v0.28, H5 to v0.42, H8 since v0.43;
 * P1 to v0.33, P7 since v0.35, P8 since v0.43.
 */
export type HeaderForm = 'H8' | 'H5' | 'H3' | 'H1';
export type PayloadForm = 'P8' | 'P7' | 'P1';
export type BlockForm = 'H8P8' | 'H5P8' | 'H5P7' | 'H5P1' | 'H3P1' | 'H1P1';

/** By header form the payload forms that occur with it; newest first, which is the order of trial. */
export const payloadFormsOf: Readonly<Record<HeaderForm, readonly PayloadForm[]>> = {
  H8: ['P8'],
  H5: ['P8', 'P7', 'P1'],
  H3: ['P1'],
  H1: ['P1'],
};

export const headerForms: readonly HeaderForm[] = ['H8', 'H5', 'H3', 'H1'];

export function headerFormOf(form: BlockForm): HeaderForm {
  return form.slice(0, 2) as HeaderForm;
}

export function payloadFormOf(form: BlockForm): PayloadForm {
  return form.slice(2) as PayloadForm;
}

/** True where headers name the view of their parent, and the certificate of a view that timed out. */
export function hasParentView(form: HeaderForm): boolean {
  return form === 'H8' || form === 'H5';
}
