// Names of variables: which may be set, and which Berth sets itself. The same rule applies to every `env` of the file
// and to the custom variables of an environment.
export const SYSTEM_VARIABLES = [
  'SERVICE_DOMAIN',
  'SERVICE_ENV_IDENTIFIER',
  'SERVICE_ENV_TYPE',
  'SERVICE_ENV_BRANCH',
] as const
export type SystemVariable = (typeof SYSTEM_VARIABLES)[number]

/** `${SERVICE_DOMAIN}`, as written in `domain`. */
export const placeholder = (name: SystemVariable): string => `\${${name}}`

export const RESERVED_PREFIX = 'BERTH_'

export const VARIABLE_KEY = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/** `VARIABLE_KEY` without the reserved names, in one pattern for editors. */
export const OWN_VARIABLE_KEY = new RegExp(
  `^(?!${RESERVED_PREFIX}|(${SYSTEM_VARIABLES.join('|')})$)[A-Za-z_][A-Za-z0-9_]{0,127}$`,
)

export const isReservedVariable = (key: string): boolean =>
  key.startsWith(RESERVED_PREFIX) || (SYSTEM_VARIABLES as readonly string[]).includes(key)

/** What is known of an environment when its file is deployed. */
export interface EnvironmentFacts {
  /** `pr-42.shop.example.com`. */
  domain: string
  identifier: string
  type: 'pull_request' | 'manual'
  branch: string
}

/** Always present, and override everything else. */
export const systemVariables = (facts: EnvironmentFacts): Record<SystemVariable, string> => ({
  SERVICE_DOMAIN: facts.domain,
  SERVICE_ENV_IDENTIFIER: facts.identifier,
  SERVICE_ENV_TYPE: facts.type,
  SERVICE_ENV_BRANCH: facts.branch,
})

/** `$PORT_QUEUE_UI` of the service queue-ui. */
export const portVariable = (service: string): string =>
  `PORT_${service.toUpperCase().replaceAll('-', '_')}`

// Common suffixes of names whose values must not be in a repository.
const SECRET_KEY = /(_KEY|_SECRET|_TOKEN|PASSWORD)$/i

export const looksLikeSecret = (key: string): boolean => SECRET_KEY.test(key)
