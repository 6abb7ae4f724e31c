// The schema for editors: draft-07, because that is what the YAML language server reads. Made from
// the zod schema; rules between services and the bounds of durations are not in it, `berth config
// validate` has them.
import { z } from 'zod'
import { serviceFileSchema } from './schema.ts'
import { schemaNotes } from './vocabulary.ts'

export const SCHEMA_ID = 'urn:berth:schema:service-file:v1'

export function jsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(serviceFileSchema, {
    target: 'draft-7',
    io: 'input',
    metadata: schemaNotes,
  })
  const { $schema, ...rest } = schema
  return { $schema, $id: SCHEMA_ID, ...rest }
}
