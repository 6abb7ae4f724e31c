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

const says = (description: string, example: unknown) => ({ description, examples: [example] })

const Key = z.string().meta(says('Name of the variable.', 'APP_KEY'))
const Keys = z.array(z.string())
const UpdatedAt = Time.meta(says('When the value was last set.', '2026-11-15T09:20:00Z'))
const UpdatedBy = Person.meta(says('Who last set the value.', { id: 7, name: 'Ada Lovelace' }))
const OneEnvironment = z.object({
  id: Id.meta(says('Identifier of the environment.', 101)),
  identifier: z.string().meta(says('Name of the environment.', 'pr-42')),
})

/** One for each key that the environment gets. */
export const Variable = z.object({
  key: Key,
  level: VariableLevel.meta(says('The level that the value comes from.', 'previews')),
  shadows: z
    .array(ProjectLevel)
    .meta(says('Farther levels whose value of this key is not used here.', ['project'])),
  updated_at: UpdatedAt,
  updated_by: UpdatedBy,
  changed_since_deployment: z
    .boolean()
    .meta(says('Whether the running version has another value, or none.', true)),
})
export type Variable = z.infer<typeof Variable>

export const VariablesQuery = OnePage.extend({
  level: VariableLevel.optional().meta(
    says('Only keys whose value comes from this level.', 'environment'),
  ),
})

/** Makes a random value on the server. */
const Generate = z.record(
  z.string(),
  z.strictObject({
    length: z
      .int()
      .min(GENERATED.least)
      .max(GENERATED.most)
      .optional()
      .meta(says('Number of letters and digits; 32 if it is absent.', 32)),
    replace: z
      .boolean()
      .optional()
      .meta(says('Replace a value that exists; otherwise such a key is refused.', false)),
  }),
)

/** Explicit, so that a stray null deletes nothing. The domain code validates each key and value by name. */
export const VariablesPatch = z.strictObject({
  set: z
    .record(z.string(), z.unknown())
    .optional()
    .meta(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference in a value
      says('Keys with their values. `${service.NAME.url}` becomes the address of a service.', {
        FEATURE_X: 'on',
      }),
    ),
  unset: Keys.optional().meta(says('Keys to remove.', ['OLD_KEY'])),
  generate: Generate.optional().meta(
    says('Keys that get a random value, which no answer shows.', { APP_KEY: { length: 32 } }),
  ),
})
export type VariablesPatch = z.infer<typeof VariablesPatch>

export const VariablesPatched = z.object({
  set: Keys.meta(says('Keys with a new value.', ['FEATURE_X'])),
  unset: Keys.meta(says('Keys that were removed.', ['OLD_KEY'])),
  unchanged: Keys.meta(says('Keys that were set to the value they had.', [])),
  missing: Keys.meta(says('Keys to remove that did not exist; not an error.', [])),
  keys: Keys.meta(says('All keys of this environment or level afterwards.', ['FEATURE_X'])),
  variables_changed: z
    .boolean()
    .meta(says('Whether a running version has other values than the next one.', true)),
  hint: z
    .string()
    .nullable()
    .meta(says('The sentence for people, if they changed.', VARIABLES_HINT)),
})
export type VariablesPatched = z.infer<typeof VariablesPatched>

/** A key of a level of a project. */
export const ProjectVariable = z.object({
  key: Key,
  level: ProjectLevel.meta(says('The environments that get it.', 'previews')),
  forks: z.boolean().meta(says('Whether environments of forks get it too.', false)),
  shadowed_by: z
    .array(
      z.object({
        level: VariableLevel.meta(says('A nearer level that has the key.', 'environment')),
        environment: OneEnvironment.nullable().meta(
          says('The environment, if it is the environment’s own value.', {
            id: 101,
            identifier: 'pr-42',
          }),
        ),
      }),
    )
    .meta(says('Where this value is not used, because a nearer level has the key.', [])),
  updated_at: UpdatedAt,
  updated_by: UpdatedBy,
})
export type ProjectVariable = z.infer<typeof ProjectVariable>

export const ProjectVariablesQuery = OnePage.extend({
  level: ProjectLevel.optional().meta(says('Only keys of this level.', 'previews')),
})

export const ProjectVariablesPatch = VariablesPatch.extend({
  level: ProjectLevel.meta(says('The level to change.', 'previews')),
  forks: z
    .record(z.string(), z.boolean())
    .optional()
    .meta(
      says('Whether environments of forks get a key too. A new key starts with `false`.', {
        PUBLIC_API_URL: true,
      }),
    ),
})
export type ProjectVariablesPatch = z.infer<typeof ProjectVariablesPatch>

export const ProjectVariablesPatched = VariablesPatched.extend({
  level: ProjectLevel.meta(says('The level that was changed.', 'previews')),
  forks: Keys.meta(says('Keys whose switch for forks changed.', [])),
  environments: z
    .array(
      OneEnvironment.extend({
        keys: Keys.meta(says('Keys whose value changed there.', ['FEATURE_X'])),
      }),
    )
    .meta(says('Environments that get another value by this change.', [])),
})
export type ProjectVariablesPatched = z.infer<typeof ProjectVariablesPatched>

/** One change of variables, without values. */
export const VariableChange = z.object({
  id: Id.meta(says('Identifier of the change.', 4711)),
  at: Time.meta(says('When it was made.', '2026-11-15T09:20:00Z')),
  by: z
    .object({
      type: z.string().meta(says('Kind of the actor.', 'user')),
      name: z.string().nullable().meta(says('Name of the actor.', 'Ada Lovelace')),
    })
    .meta(says('Who made it.', { type: 'user', name: 'Ada Lovelace' })),
  level: VariableLevel.meta(says('The level that was changed.', 'previews')),
  environment: z
    .object({
      id: Id.meta(says('Identifier of the environment.', 101)),
      identifier: z.string().nullable().meta(says('Its name at that time.', 'pr-42')),
    })
    .nullable()
    .meta(says('The environment, if its own variables were changed.', null)),
  set: Keys.meta(says('Keys with a new value.', ['FEATURE_X'])),
  unset: Keys.meta(says('Keys that were removed.', [])),
  forks_on: Keys.meta(says('Keys that environments of forks get from then on.', [])),
  forks_off: Keys.meta(says('Keys that environments of forks no longer get.', [])),
})
export type VariableChange = z.infer<typeof VariableChange>

export const VariableHistoryQuery = Paging.extend({
  key: z.string().max(128).optional().meta(says('Only changes of this key.', 'APP_KEY')),
})

export const ProjectHistoryQuery = VariableHistoryQuery.extend({
  level: VariableLevel.optional().meta(says('Only changes at this level.', 'previews')),
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
