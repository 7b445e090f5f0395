package rows

// Prediction is the response of POST /v1/predict.
type Prediction = prediction
