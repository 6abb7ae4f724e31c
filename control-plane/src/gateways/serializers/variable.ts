// Serializes the variables of a project's levels and the history of changes.
import type { ProjectVariable, VariableChange } from '@berth/shared/api'
import type { VariableChangeView } from '../../app/environments/variable-history.ts'
import type { ProjectVariableView } from '../../app/projects/variables.ts'
import { time } from './fields.ts'

export const serializeProjectVariable = (v: ProjectVariableView): ProjectVariable => ({
  key: v.key,
  level: v.level,
  forks: v.forks,
  shadowed_by: v.shadowedBy,
  updated_at: time(v.updatedAt),
  updated_by: { id: v.updatedBy, name: v.updatedByName },
})

export const serializeVariableChange = (v: VariableChangeView): VariableChange => ({
  id: v.id,
  at: time(v.at),
  by: v.by,
  level: v.level,
  environment: v.environment,
  set: v.set,
  unset: v.unset,
  forks_on: v.forksOn,
  forks_off: v.forksOff,
})
