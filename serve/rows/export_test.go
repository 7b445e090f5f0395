package rows

// Prediction is what POST /v1/predict answers.
type Prediction = prediction
