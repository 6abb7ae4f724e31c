// What a build argument may take from elsewhere: `${SERVICE_DOMAIN}` and the other system variables, the address of
// another service, a custom variable. `$${` is a literal `${`. The check of the file and the deployment share this. The
// value of a custom variable may ask for addresses of services.
import {
  isReservedVariable,
  SYSTEM_VARIABLES,
  type SystemVariable,
  VARIABLE_KEY,
} from './variables.ts'

export type Reference =
  | { kind: 'system'; name: SystemVariable }
  /** `${service.api.url}`. */
  | { kind: 'address'; service: string }
  | { kind: 'custom'; key: string }

const WRITTEN = /(\$?)\$\{([^}]*)(\}?)/g
const ADDRESS = /^service\.([a-z][a-z0-9-]{0,38})\.url$/

function readReference(inner: string): Reference | undefined {
  const name = SYSTEM_VARIABLES.find((known) => known === inner)
  if (name) return { kind: 'system', name }
  const service = ADDRESS.exec(inner)?.[1]
  if (service !== undefined) return { kind: 'address', service }
  const isCustom = VARIABLE_KEY.test(inner) && !isReservedVariable(inner)
  return isCustom ? { kind: 'custom', key: inner } : undefined
}

interface Written {
  /** As in the file, up to its end. */
  written: string
  /** Undefined: it names nothing that exists. */
  reference: Reference | undefined
}

export function referencesIn(text: string): Written[] {
  return [...text.matchAll(WRITTEN)].flatMap(([written, literal, inner = '', end]) =>
    literal
      ? []
      : [
          end
            ? { written, reference: readReference(inner) }
            : { written: '${', reference: undefined },
        ],
  )
}

const IN_VALUE = /(\$?)\$\{service\.([a-z][a-z0-9-]{0,38})\.url\}/g

/** Services whose addresses the value of a custom variable asks for. Every other text in it is the user's own. */
export const addressesIn = (value: string): string[] => [
  ...new Set(
    [...value.matchAll(IN_VALUE)].flatMap(([, literal, service]) =>
      literal || !service ? [] : [service],
    ),
  ),
]

/** `$${service.api.url}` is a literal `${service.api.url}`. */
export const expandAddresses = (value: string, addresses: ReadonlyMap<string, string>): string =>
  value.replaceAll(IN_VALUE, (written: string, literal: string, service: string) =>
    literal ? written.slice(1) : (addresses.get(service) ?? written),
  )

/** Whether the text is one reference and nothing else. */
export const isReference = (text: string): boolean =>
  referencesIn(text).length === 1 && /^\$\{[^}]*\}$/.test(text)

/** Leaves what names nothing as it is written. */
export const expandReferences = (text: string, resolve: (reference: Reference) => string): string =>
  text.replaceAll(WRITTEN, (written: string, literal: string, inner: string, end: string) => {
    if (literal) return written.slice(1)
    const reference = end ? readReference(inner) : undefined
    return reference ? resolve(reference) : written
  })
