// Hostnames: what is valid in `domain`, how the four variables are substituted, and how two names are compared. A
// hostname leaves this file in a single form: lower case, without a trailing dot, as punycode.
import { SERVICE_FILE } from '../limits/limits.ts'
import { shown } from './problem.ts'
import {
  type EnvironmentFacts,
  placeholder,
  SYSTEM_VARIABLES,
  type SystemVariable,
  systemVariables,
} from './variables.ts'
import type { Fault } from './vocabulary.ts'

const VARIABLE = `\\$\\{(?:${SYSTEM_VARIABLES.join('|')})\\}`
const PART = `(?:[A-Za-z0-9-]|${VARIABLE})+`
/** Parts of letters, digits, dashes and variables, separated by dots; it contains a dot or the environment's domain. */
export const DOMAIN = new RegExp(`^(?=.*(?:\\.|\\$\\{SERVICE_DOMAIN\\}))${PART}(?:\\.${PART})*$`)

export const ENVIRONMENT_DOMAIN = placeholder('SERVICE_DOMAIN')
const LONGEST_LABEL = 63
const LONGEST_HOST = 253
const IP_ADDRESS = /^\d+(\.\d+){3}$|^\[|^[0-9a-f]*:[0-9a-f:]+$/i

/** Why a text is not a valid `domain`; undefined if it is. */
export function domainFault(text: string): Fault | undefined {
  const fault = (says: string, suggestion?: string): Fault => ({
    says,
    code: 'invalid_domain',
    ...(suggestion !== undefined &&
      suggestion !== text &&
      DOMAIN.test(suggestion) && { suggestion }),
  })
  if (text.length > LONGEST_HOST) {
    return fault(`has ${text.length} characters; a host name has at most ${LONGEST_HOST}`)
  }
  const got = `got '${shown(text)}'`
  const scheme = /^([a-z][a-z0-9+.-]*:)?\/\//i.exec(text)
  if (scheme) {
    const host = text.slice(scheme[0].length).replace(/[/?#:].*$/, '')
    return fault(`must be a host name without '${shown(scheme[0])}', ${got}`, host)
  }
  const unknown = [...text.matchAll(/\$\{([^}]*)\}?|\$[A-Za-z_]\w*/g)].find(
    ([all, name]) => all !== `\${${name}}` || !isSystemVariable(name),
  )
  if (unknown) {
    return fault(`can hold only ${systemVariableList()}, got '${shown(unknown[0])}'`)
  }
  if (text.includes('*')) return fault(`cannot hold a wildcard, ${got}`)
  if (IP_ADDRESS.test(text)) return fault(`must be a host name, not an IP address, ${got}`)
  if (/:\d*$/.test(text)) {
    return fault(`must be a host name without a port, ${got}`, text.replace(/:\d*$/, ''))
  }
  if (text.endsWith('.')) return fault(`must not end with a dot, ${got}`, text.replace(/\.+$/, ''))
  if (/[^\p{ASCII}]/u.test(text)) {
    return fault(`must be written in ASCII (punycode), ${got}`, normalizeHost(text))
  }
  if (!DOMAIN.test(text)) {
    return fault(`must be a host name such as docs-\${SERVICE_ENV_IDENTIFIER}.example.com, ${got}`)
  }
  return labelFault(text.replace(new RegExp(VARIABLE, 'g'), 'x'), fault)
}

/** Why an expanded hostname cannot be served. */
export const forgeFault = (host: string): Fault | undefined =>
  labelFault(host, (says) => ({ says, code: 'invalid_domain' }))

function labelFault(host: string, fault: (says: string) => Fault): Fault | undefined {
  if (host.length > LONGEST_HOST) {
    return fault(`has ${host.length} characters; a host name has at most ${LONGEST_HOST}`)
  }
  if (IP_ADDRESS.test(host)) return fault(`must be a host name, not an IP address, got '${host}'`)
  for (const label of host.split('.')) {
    if (label.length > LONGEST_LABEL) {
      return fault(
        `has the part '${shown(label)}' of ${label.length} characters; at most ${LONGEST_LABEL} ` +
          'are possible between two dots',
      )
    }
    if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/i.test(label)) {
      return fault(
        `has the part '${shown(label)}'; parts hold letters, digits and dashes, and neither ` +
          'begin nor end with a dash',
      )
    }
  }
  return undefined
}

/** Lower case, no trailing dot, punycode. */
export function normalizeHost(host: string): string {
  const plain = host.trim().replace(/\.$/, '').toLowerCase()
  if (!/[^\p{ASCII}]/u.test(plain)) return plain
  const url = `http://${plain}`
  return URL.canParse(url) ? new URL(url).hostname : plain
}

/** Substitutes the four variables; the result still has to pass `forgeFault`. */
export function expandDomain(domain: string, facts: EnvironmentFacts): string {
  const values = systemVariables(facts)
  const expanded = domain.replace(/\$\{([A-Z_]+)\}/g, (all, name: string) => {
    if (!isSystemVariable(name)) return all
    return name === 'SERVICE_DOMAIN' ? normalizeHost(values[name]) : hostLabel(values[name])
  })
  return normalizeHost(expanded)
}

/** Turns any text into a label of a hostname: `feature/Cart_2` → `feature-cart-2`. */
export const hostLabel = (value: string): string =>
  value
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, SERVICE_FILE.branchLabelCharacters)
    .replace(/-$/, '')

/** Two domains with the same template are the same hostname in every environment. */
export const normalizeTemplate = (domain: string): string =>
  domain
    .split(/(\$\{[A-Z_]+\})/)
    .map((part, index) => (index % 2 === 1 ? part : part.toLowerCase()))
    .join('')

const isSystemVariable = (name: string | undefined): name is SystemVariable =>
  (SYSTEM_VARIABLES as readonly (string | undefined)[]).includes(name)

const systemVariableList = (): string => {
  const names = SYSTEM_VARIABLES.map(placeholder)
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}
