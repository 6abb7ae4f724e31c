// Custom variables of environments and projects, and credentials of image registries: keys are readable, values never are.
import { z } from 'zod'
import { GENERATED, REGISTRIES } from '../limits/limits.ts'
import { Id, IdParams, OnePage, Paging, Person, Time } from './fields.ts'

export const VARIABLES_HINT = 'Variables changed since the last deployment'

/** Levels of a project, which reach several environments. The nearest level that has a key wins. */
export const PROJECT_LEVELS = ['project', 'previews', 'manual'] as const
export const ProjectLevel = z.enum(PROJECT_LEVELS)
export type ProjectLevel = z.infer<typeof ProjectLevel>
export const VariableLevel = z.enum([...PROJECT_LEVELS, 'environment'])
export type VariableLevel = z.infer<typeof VariableLevel>

const Keys = z.array(z.string())
const OneEnvironment = z.object({
  id: Id,
  identifier: z.string(),
})

/** One for each key that the environment gets. */
export const Variable = z.object({
  key: z.string(),
  level: VariableLevel,
  shadows: z.array(ProjectLevel),
  updated_at: Time,
  updated_by: Person,
  changed_since_deployment: z.boolean(),
})
export type Variable = z.infer<typeof Variable>

export const VariablesQuery = OnePage.extend({
  level: VariableLevel.optional(),
})

/** Makes a random value on the server. */
const Generate = z.record(
  z.string(),
  z.strictObject({
    length: z.int().min(GENERATED.least).max(GENERATED.most).optional(),
    replace: z.boolean().optional(),
  }),
)

/** Explicit, so that a stray null deletes nothing. The domain code validates each key and value by name. */
export const VariablesPatch = z.strictObject({
  set: z.record(z.string(), z.unknown()).optional(),
  unset: Keys.optional(),
  generate: Generate.optional(),
})
export type VariablesPatch = z.infer<typeof VariablesPatch>

export const VariablesPatched = z.object({
  set: Keys,
  unset: Keys,
  unchanged: Keys,
  missing: Keys,
  keys: Keys,
  variables_changed: z.boolean(),
  hint: z.string().nullable(),
})
export type VariablesPatched = z.infer<typeof VariablesPatched>

/** A key of a level of a project. */
export const ProjectVariable = z.object({
  key: z.string(),
  level: ProjectLevel,
  forks: z.boolean(),
  shadowed_by: z.array(
    z.object({
      level: VariableLevel,
      environment: OneEnvironment.nullable(),
    }),
  ),
  updated_at: Time,
  updated_by: Person,
})
export type ProjectVariable = z.infer<typeof ProjectVariable>

export const ProjectVariablesQuery = OnePage.extend({
  level: ProjectLevel.optional(),
})

export const ProjectVariablesPatch = VariablesPatch.extend({
  level: ProjectLevel,
  forks: z.record(z.string(), z.boolean()).optional(),
})
export type ProjectVariablesPatch = z.infer<typeof ProjectVariablesPatch>

export const ProjectVariablesPatched = VariablesPatched.extend({
  level: ProjectLevel,
  forks: Keys,
  environments: z.array(
    OneEnvironment.extend({
      keys: Keys,
    }),
  ),
})
export type ProjectVariablesPatched = z.infer<typeof ProjectVariablesPatched>

/** One change of variables, without values. */
export const VariableChange = z.object({
  id: Id,
  at: Time,
  by: z.object({
    type: z.string(),
    name: z.string().nullable(),
  }),
  level: VariableLevel,
  environment: z
    .object({
      id: Id,
      identifier: z.string().nullable(),
    })
    .nullable(),
  set: Keys,
  unset: Keys,
  forks_on: Keys,
  forks_off: Keys,
})
export type VariableChange = z.infer<typeof VariableChange>

export const VariableHistoryQuery = Paging.extend({
  key: z.string().max(128).optional(),
})

export const ProjectHistoryQuery = VariableHistoryQuery.extend({
  level: VariableLevel.optional(),
})

/** Credentials of an image registry. The password is written, never read. */
export const Registry = z.object({
  /** `ghcr.io`, `registry.example.com:5000`; Docker Hub is `docker.io`. */
  host: z.string(),
  username: z.string(),
  /** `organization`: for every project; a project's own win. */
  from: z.enum(['project', 'organization']),
  updated_at: Time,
  updated_by: Person,
})
export type Registry = z.infer<typeof Registry>

export const RegistryPut = z.strictObject({
  username: z
    .string()
    .min(1)
    .max(REGISTRIES.usernameCharacters)
    .regex(/^[^\p{Cc}:]+$/u, 'must hold no colon and no control characters'),
  password: z
    .string()
    .min(1)
    .max(REGISTRIES.passwordCharacters)
    .regex(/^[^\0]+$/, 'must hold no NUL character'),
})
export type RegistryPut = z.infer<typeof RegistryPut>

export const RegistryParams = IdParams.extend({ host: z.string().min(1).max(300) })
