export function wireTypes(): string;
