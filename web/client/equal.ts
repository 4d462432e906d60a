/** Whether two values of JSON are the same, whatever the order of their fields. */
export function isEqualJson(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const fields = Object.keys(one);
  if (fields.length !== Object.keys(other).length) return false;
  return fields.every(
    (name) =>
      Object.hasOwn(other, name) &&
      isEqualJson((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name]),
  );
}
