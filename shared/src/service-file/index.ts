// .service.yml: reads it, reports what is wrong with it, and finds which service answers where. Runs in the agent, the
// client and the browser, without file or network access.
export { forgeFault, hostLabel, normalizeHost } from './domain.ts'
export {
  formatProblems,
  MISTAKEN_NAMES,
  missingFileMessage,
  sectionProblem,
} from './format.ts'
export { jsonSchema } from './json-schema.ts'
export { isDatabaseImage } from './meaning.ts'
export {
  ERROR_CODES,
  FILE_NAME,
  type Problem,
  type ProblemCode,
  type Range,
  WARNING_CODES,
} from './problem.ts'
export { readProcfile } from './procfile.ts'
export { readServiceFile } from './read.ts'
export {
  addressesIn,
  expandAddresses,
  expandReferences,
  isReference,
  type Reference,
  referencesIn,
} from './references.ts'
export { type Route, routes } from './routes.ts'
export { nextRun, runsBetween, scheduleFault } from './schedule.ts'
export type * from './service-file.ts'
export {
  type EnvironmentFacts,
  isReservedVariable,
  looksLikeSecret,
  portVariable,
  RESERVED_PREFIX,
  SYSTEM_VARIABLES,
  type SystemVariable,
  systemVariables,
  VARIABLE_KEY,
} from './variables.ts'
