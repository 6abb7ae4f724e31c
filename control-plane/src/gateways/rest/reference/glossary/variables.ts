// Custom variables of environments and of the levels of a project.
import type { Glossary } from './entries.ts'
import { ONE_PAGE } from './everywhere.ts'

export const VARIABLES: Glossary = {
  operations: {
    listEnvironmentVariables: {
      says: 'Lists the keys that an environment gets and the level that each value comes from: the nearest level that has the key wins. All are on one page, and no answer ever contains a value.',
    },
    updateEnvironmentVariables: {
      says: 'Sets, generates and unsets the environment’s own variables, all or nothing. The change takes effect with the next deployment; until then `variables_changed` is true. Those set before the first deployment apply to it. An environment gets at most 200 keys from all levels, 64 KiB each, 512 KiB together.',
      body: {
        set: { DATABASE_URL: 'postgres://shop@db/shop' },
        unset: ['OLD_KEY'],
        generate: { APP_KEY: { length: 48 } },
      },
    },
    listEnvironmentVariablesHistory: {
      says: 'Lists who changed which keys of the environment and of the levels that reach it, newest first, page by page. It is read from the audit log, so it goes back 400 days. No answer ever contains a value.',
      answer: { environment: null, level: 'previews' },
    },
    listProjectVariables: {
      says: 'Lists the keys of a project’s levels, from far to near, and where a nearer level has the same key. All are on one page, and no answer ever contains a value.',
    },
    updateProjectVariables: {
      says: 'Sets, generates and unsets variables of one level, all or nothing. The change takes effect in each environment with its next deployment; `environments` names those that get another value by it. Refused if an environment would get more than 200 keys or 512 KiB.',
      also: 'Refused if a protected environment of another owner would get another value.',
      body: {
        level: 'previews',
        set: { PUBLIC_API_URL: 'https://api.example.com' },
        forks: { PUBLIC_API_URL: true },
      },
    },
    listProjectVariablesHistory: {
      says: 'Lists who changed which keys of the project’s levels and of its environments, also removed ones, newest first, page by page. It is read from the audit log, so it goes back 400 days. No answer ever contains a value.',
    },
  },
  fields: {
    'listEnvironmentVariables.per_page': ONE_PAGE,
    'listProjectVariables.per_page': ONE_PAGE,
    'listEnvironmentVariables.level': [
      'Only keys whose value comes from this level.',
      'environment',
    ],
    'listProjectVariables.level': ['Only keys of this level.', 'previews'],
    'listProjectVariablesHistory.level': ['Only changes of this level.', 'previews'],
    '?key': ['Only changes of exactly this key.', 'DATABASE_URL'],

    'Variable.key': ['The name that processes see.', 'DATABASE_URL'],
    'Variable.level': [
      'Where the value comes from: the `environment` itself, all `previews` or all `manual` environments, or the whole `project`.',
      'environment',
    ],
    'Variable.shadows': [
      'Farther levels that have the key too; their value is not used here.',
      ['project'],
    ],
    'Variable.updated_at': ['When its value was last set.', '2026-11-15T09:12:31Z'],
    'Variable.updated_by': ['Who last set its value.'],
    'Variable.changed_since_deployment': [
      'Whether the running version has another value, or none.',
      false,
    ],
    'VariablesPatch.set': [
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference in a value
      'Keys and their new values, as text. Keys begin with a letter or underscore; names that begin with `BERTH_` and the system variables (`SERVICE_DOMAIN` …) are refused. `${service.NAME.url}` in a value becomes the address of that service.',
      { DATABASE_URL: 'postgres://shop@db/shop' },
    ],
    'VariablesPatch.unset': ['Keys to remove; unknown ones are no error.', ['OLD_KEY']],
    'VariablesPatch.generate': [
      'Keys that get a random value, which no answer ever contains.',
      { APP_KEY: { length: 48 } },
    ],
    'generate.length': ['Letters and digits, 16 to 256; 32 if it is absent.', 48],
    'generate.replace': ['True replaces a value; otherwise a key that exists is refused.', false],
    'VariablesPatched.set': ['Keys with a new value.', ['DATABASE_URL']],
    'VariablesPatched.unset': ['Keys that were removed.', ['OLD_KEY']],
    'VariablesPatched.unchanged': ['Keys that had this value already.', []],
    'VariablesPatched.missing': ['Keys to remove that did not exist.', []],
    'VariablesPatched.keys': [
      'All own keys of the environment, or of the level, after the change.',
      ['DATABASE_URL', 'LOG_LEVEL'],
    ],
    'VariablesPatched.variables_changed': [
      'Variables changed since the last deployment; deploy to apply them.',
      true,
    ],
    'VariablesPatched.hint': [
      'The sentence to show while `variables_changed` is true; null otherwise.',
      'Variables changed since the last deployment',
    ],

    'ProjectVariable.level': [
      'Which environments get it: all (`project`), those of pull requests (`previews`), or those that people created (`manual`).',
      'previews',
    ],
    'ProjectVariable.forks': ['Whether environments of forks get it too.', false],
    'ProjectVariable.shadowed_by': [
      'Where another value of this key is used, because a nearer level has it; empty: nowhere.',
    ],
    'shadowed_by.level': ['The nearer level that has the key.', 'environment'],
    'shadowed_by.environment': ['The environment with its own value; null: a level has it.'],
    'shadowed_by.environment.id': ['Names that environment in paths.', 101],
    'shadowed_by.environment.identifier': ['What people call that environment.', 'pr-42'],
    'ProjectVariablesPatch.level': [
      'The level to change: `project` reaches all environments, `previews` those of pull requests, `manual` those that people created.',
      'previews',
    ],
    'ProjectVariablesPatch.forks': [
      'Whether environments of forks get a key too, at the levels `project` and `previews`. A new key starts with false; mark only what anyone may know.',
      { PUBLIC_API_URL: true },
    ],
    'ProjectVariablesPatched.level': ['The level that was changed.', 'previews'],
    'ProjectVariablesPatched.variables_changed': [
      'Whether any environment gets another value by this; deploy those to apply it.',
      true,
    ],
    'ProjectVariablesPatched.forks': ['Keys whose switch for forks changed.', ['PUBLIC_API_URL']],
    'ProjectVariablesPatched.environments': [
      'Environments that get another value by this change; empty: none does.',
    ],
    'ProjectVariablesPatched.environments.id': ['Names that environment in paths.', 101],
    'ProjectVariablesPatched.environments.identifier': [
      'What people call that environment.',
      'pr-42',
    ],
    'ProjectVariablesPatched.environments.keys': [
      'Keys whose value changes there.',
      ['DATABASE_URL'],
    ],

    'VariableChange.id': ['Names its entry in the audit log.', 4711],
    'VariableChange.by': ['Who made the change.'],
    'VariableChange.by.type': ['The kind of actor, as the audit log has it.', 'user'],
    'VariableChange.by.name': ['Its name at that time; null: it has none.', 'Ada Lovelace'],
    'VariableChange.level': ['The level that was changed.', 'environment'],
    'VariableChange.environment': [
      'The environment whose own variables were changed; null: a level of the project was.',
    ],
    'VariableChange.environment.id': ['Names that environment in paths.', 101],
    'VariableChange.environment.identifier': [
      'What people called it at that time; null: not known.',
      'pr-42',
    ],
    'VariableChange.set': ['Keys that got a new value.', ['DATABASE_URL']],
    'VariableChange.unset': ['Keys that were removed.', []],
    'VariableChange.forks_on': ['Keys that environments of forks get since then.', []],
    'VariableChange.forks_off': ['Keys that environments of forks no longer get.', []],
  },
}
