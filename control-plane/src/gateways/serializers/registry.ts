// Turns rows of registry credentials into the documented fields. The password has no field.
import type { Registry } from '@berth/shared/api'
import type { RegistryView } from '../../app/projects/registries.ts'
import { WHOLE_ORGANIZATION } from '../../store/projects/registries.ts'
import { time } from './fields.ts'

export const serializeRegistry = (view: RegistryView): Registry => ({
  host: view.host,
  username: view.username,
  from: view.projectId === WHOLE_ORGANIZATION ? 'organization' : 'project',
  updated_at: time(view.updatedAt),
  updated_by: { id: view.updatedBy, name: view.updatedByName },
})
