// Exports the schema for editors as draft-07, which the YAML language server reads. Generated from the zod schema;
// rules between services and the limits of durations are only in `berth config validate`.
import { z } from 'zod'
import { serviceFileSchema } from './schema.ts'
import { schemaNotes } from './vocabulary.ts'

const SCHEMA_ID = 'urn:berth:schema:service-file:v1'

export function jsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(serviceFileSchema, {
    target: 'draft-7',
    io: 'input',
    metadata: schemaNotes,
  })
  const { $schema, ...rest } = schema
  return { $schema, $id: SCHEMA_ID, ...rest }
}
