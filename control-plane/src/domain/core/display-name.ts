// A name as somebody sent it, on its way into an answer. What cannot be a name may be a secret in the wrong place, and
// answers are logged, pasted and kept for repetition: its beginning is enough to find the mistake.
import { VARIABLE_KEY } from '@berth/shared/service-file'

const SHORT = 8 // masking begins there as well
const BEGINNING = 4

export const displayName = (name: string): string =>
  name.length < SHORT || VARIABLE_KEY.test(name) ? name : `${name.slice(0, BEGINNING)}…`
